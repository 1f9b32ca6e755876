//! Facts about each kind beside its schema, as one table.

use setpoint_api::name::NameRule;

/// When a write makes `metadata.generation` one larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// It is 1 and stays 1.
    Once,
    /// When this field changes.
    Field(&'static str),
    /// When `spec` changes; the kind starts without a generation.
    SpecFromZero,
    /// When `spec` or the annotations change (Deployment).
    SpecOrAnnotations,
    /// When anything but metadata changes, or the labels do (EndpointSlice).
    AllOrLabels,
    /// When anything but metadata and `status` changes (custom resources with a status subresource).
    AllButStatus,
    /// When anything but metadata changes (custom resources without one).
    AllButMetadata,
}

/// The default propagation of a delete to dependants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// They are deleted in the background.
    Delete,
    /// They are left alone, and may not be asked to be otherwise: the kind has no dependants (events).
    Unsupported,
}

/// The facts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The API group; empty for core and for custom resources.
    pub group: &'static str,
    /// The kind; empty for custom resources.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The rule for its names.
    pub name: NameRule,
    /// Whether `status` is written through its own subresource only.
    pub status: bool,
    /// When the generation grows.
    pub generation: Generation,
    /// Whether an update may come without a resourceVersion.
    pub unconditional_update: bool,
    /// Whether an update may create.
    pub create_on_update: bool,
    /// Whether deletion gives the object time (pods).
    pub graceful: bool,
    /// The default propagation of a delete to dependants.
    pub garbage: Garbage,
    /// Whether a CustomResourceDefinition defines it.
    pub custom: bool,
}

impl Facts {
    /// The facts of a custom resource.
    pub fn custom(namespaced: bool, status: bool) -> Self {
        Facts {
            namespaced,
            status,
            generation: if status { Generation::AllButStatus } else { Generation::AllButMetadata },
            unconditional_update: false,
            custom: true,
            ..DEFAULT
        }
    }

    /// The facts of a built-in kind.
    pub fn builtin(group: &str, kind: &str) -> Option<&'static Facts> {
        // Both groups show one storage.
        let group = if kind == "Event" { "" } else { group };
        BUILTIN.iter().find(|facts| facts.kind == kind && facts.group == group)
    }

    /// Group and kind: what the tables of this crate are looked up by.
    pub fn key(&self) -> (&'static str, &'static str) {
        (self.group, self.kind)
    }
}

const DEFAULT: Facts = Facts {
    group: "",
    kind: "",
    namespaced: false,
    name: NameRule::Subdomain,
    status: false,
    generation: Generation::None,
    unconditional_update: true,
    create_on_update: false,
    graceful: false,
    garbage: Garbage::Delete,
    custom: false,
};

const fn namespaced(group: &'static str, kind: &'static str) -> Facts {
    Facts { namespaced: true, ..cluster(group, kind) }
}

const fn cluster(group: &'static str, kind: &'static str) -> Facts {
    Facts { group, kind, ..DEFAULT }
}

const SPEC: Generation = Generation::Field("spec");
const WEBHOOKS: Generation = Generation::Field("webhooks");
const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";

static BUILTIN: &[Facts] = &[
    namespaced("", "ConfigMap"),
    Facts { create_on_update: true, ..namespaced("", "Endpoints") },
    Facts {
        name: NameRule::PathSegment,
        create_on_update: true,
        garbage: Garbage::Unsupported,
        ..namespaced("", "Event")
    },
    Facts { create_on_update: true, ..namespaced("", "LimitRange") },
    Facts { name: NameRule::Label, status: true, ..cluster("", "Namespace") },
    Facts { status: true, ..cluster("", "Node") },
    Facts { status: true, ..cluster("", "PersistentVolume") },
    Facts { status: true, ..namespaced("", "PersistentVolumeClaim") },
    Facts { status: true, generation: SPEC, graceful: true, ..namespaced("", "Pod") },
    Facts { generation: Generation::Field("template"), ..namespaced("", "PodTemplate") },
    Facts { status: true, generation: SPEC, ..namespaced("", "ReplicationController") },
    Facts { status: true, ..namespaced("", "ResourceQuota") },
    namespaced("", "Secret"),
    Facts { name: NameRule::Label, status: true, create_on_update: true, ..namespaced("", "Service") },
    namespaced("", "ServiceAccount"),
    namespaced("apps", "ControllerRevision"),
    Facts { status: true, generation: SPEC, ..namespaced("apps", "DaemonSet") },
    Facts { status: true, generation: Generation::SpecOrAnnotations, ..namespaced("apps", "Deployment") },
    Facts { status: true, generation: SPEC, ..namespaced("apps", "ReplicaSet") },
    Facts { name: NameRule::Label, status: true, generation: SPEC, ..namespaced("apps", "StatefulSet") },
    Facts { status: true, generation: SPEC, ..namespaced("autoscaling", "HorizontalPodAutoscaler") },
    Facts { status: true, generation: SPEC, ..namespaced("batch", "CronJob") },
    Facts { status: true, generation: SPEC, ..namespaced("batch", "Job") },
    Facts {
        name: NameRule::PathSegment,
        status: true,
        ..cluster("certificates.k8s.io", "CertificateSigningRequest")
    },
    Facts {
        name: NameRule::PathSegment,
        unconditional_update: false,
        ..cluster("certificates.k8s.io", "ClusterTrustBundle")
    },
    Facts {
        status: true,
        unconditional_update: false,
        ..namespaced("certificates.k8s.io", "PodCertificateRequest")
    },
    Facts {
        create_on_update: true,
        unconditional_update: false,
        ..namespaced("coordination.k8s.io", "Lease")
    },
    Facts {
        create_on_update: true,
        unconditional_update: false,
        ..namespaced("coordination.k8s.io", "LeaseCandidate")
    },
    Facts { generation: Generation::AllOrLabels, ..namespaced("discovery.k8s.io", "EndpointSlice") },
    Facts { status: true, generation: SPEC, ..namespaced(NETWORKING, "Ingress") },
    Facts { generation: SPEC, ..cluster(NETWORKING, "IngressClass") },
    cluster(NETWORKING, "IPAddress"),
    Facts { generation: SPEC, ..namespaced(NETWORKING, "NetworkPolicy") },
    Facts { status: true, ..cluster(NETWORKING, "ServiceCIDR") },
    Facts { create_on_update: true, unconditional_update: false, ..cluster("node.k8s.io", "RuntimeClass") },
    Facts {
        status: true,
        generation: SPEC,
        unconditional_update: false,
        ..namespaced("policy", "PodDisruptionBudget")
    },
    Facts { name: NameRule::PathSegment, create_on_update: true, ..cluster(RBAC, "ClusterRole") },
    Facts { name: NameRule::PathSegment, create_on_update: true, ..cluster(RBAC, "ClusterRoleBinding") },
    Facts { name: NameRule::PathSegment, create_on_update: true, ..namespaced(RBAC, "Role") },
    Facts { name: NameRule::PathSegment, create_on_update: true, ..namespaced(RBAC, "RoleBinding") },
    Facts { generation: Generation::Once, ..cluster("scheduling.k8s.io", "PriorityClass") },
    Facts {
        unconditional_update: false,
        generation: Generation::SpecFromZero,
        ..cluster(STORAGE, "CSIDriver")
    },
    Facts { status: true, unconditional_update: false, ..cluster(STORAGE, "CSINode") },
    Facts { unconditional_update: false, ..namespaced(STORAGE, "CSIStorageCapacity") },
    cluster(STORAGE, "StorageClass"),
    Facts { status: true, unconditional_update: false, ..cluster(STORAGE, "VolumeAttachment") },
    cluster(STORAGE, "VolumeAttributesClass"),
    Facts {
        generation: WEBHOOKS,
        unconditional_update: false,
        ..cluster(ADMISSION, "MutatingWebhookConfiguration")
    },
    Facts {
        generation: WEBHOOKS,
        unconditional_update: false,
        ..cluster(ADMISSION, "ValidatingWebhookConfiguration")
    },
    Facts {
        status: true,
        generation: SPEC,
        unconditional_update: false,
        ..cluster(ADMISSION, "ValidatingAdmissionPolicy")
    },
    Facts {
        generation: SPEC,
        unconditional_update: false,
        ..cluster(ADMISSION, "ValidatingAdmissionPolicyBinding")
    },
    Facts { generation: SPEC, unconditional_update: false, ..cluster(ADMISSION, "MutatingAdmissionPolicy") },
    Facts {
        generation: SPEC,
        unconditional_update: false,
        ..cluster(ADMISSION, "MutatingAdmissionPolicyBinding")
    },
    Facts {
        status: true,
        generation: SPEC,
        unconditional_update: false,
        ..cluster("apiextensions.k8s.io", "CustomResourceDefinition")
    },
    Facts { status: true, unconditional_update: false, ..cluster("apiregistration.k8s.io", "APIService") },
    Facts { status: true, generation: SPEC, ..cluster("flowcontrol.apiserver.k8s.io", "FlowSchema") },
    Facts {
        status: true,
        generation: SPEC,
        ..cluster("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
    },
    Facts {
        status: true,
        unconditional_update: false,
        ..cluster("storagemigration.k8s.io", "StorageVersionMigration")
    },
    Facts { generation: SPEC, ..cluster("resource.k8s.io", "DeviceClass") },
    Facts { status: true, generation: SPEC, ..cluster("resource.k8s.io", "DeviceTaintRule") },
    Facts { status: true, ..namespaced("resource.k8s.io", "ResourceClaim") },
    namespaced("resource.k8s.io", "ResourceClaimTemplate"),
    Facts { generation: SPEC, ..cluster("resource.k8s.io", "ResourceSlice") },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_event_groups_are_one_kind() {
        let core = Facts::builtin("", "Event").unwrap();
        assert_eq!(core, Facts::builtin("events.k8s.io", "Event").unwrap());
    }

    #[test]
    fn no_kind_is_listed_twice() {
        for (at, facts) in BUILTIN.iter().enumerate() {
            assert!(!BUILTIN[at + 1..].iter().any(|other| other.key() == facts.key()), "{:?}", facts.key());
        }
    }
}
