//! The kinds that the server itself treats differently. Other differences between kinds are in their facts.

/// How the server treats a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Objects are answered and never stored (reviews).
    pub ephemeral: bool,
    /// Objects are stored, but no controller acts on them: a create is answered with a warning.
    pub inert: bool,
    /// An immediate deletion is answered with the object instead of a Status.
    pub returns_deleted: bool,
}

/// Kinds that are stored and served, and that no controller acts on.
const INERT: &[(&str, &str)] = &[
    ("networking.k8s.io", "networkpolicies"),
    ("networking.k8s.io", "ingresses"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("storagemigration.k8s.io", "storageversionmigrations"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("apiregistration.k8s.io", "apiservices"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
];

/// Kinds whose immediate deletion is answered with the deleted object.
const RETURNS_DELETED: &[(&str, &str)] = &[
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "deviceclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattributesclasses"),
    ("", "resourcequotas"),
    ("", "persistentvolumes"),
    ("", "serviceaccounts"),
    ("", "persistentvolumeclaims"),
    ("", "namespaces"),
    ("", "pods"),
    ("", "services"),
    ("", "podtemplates"),
];

impl Rules {
    /// The rules of a built-in resource.
    pub(super) fn builtin(group: &str, plural: &str, verbs: &[&str]) -> Self {
        Rules {
            ephemeral: !verbs.contains(&"get") && !verbs.contains(&"list"),
            inert: INERT.contains(&(group, plural)),
            returns_deleted: RETURNS_DELETED.contains(&(group, plural)),
        }
    }
}
