//! The test data of `k8s.io/api`: every kind with every field set, created and applied. Most values are the field's own
//! name, so that the answers name the causes of a whole kind at once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::scenario::{Scenario, Step};

/// The module whose test data this is: the version of the API that both servers serve.
const MODULE: &str = "k8s.io/api@v0.37.0";

/// The kinds of a group: its name in the test data, its path, and kinds with their resources. A resource without a
/// namespace stands behind a slash.
type Group = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const GROUPS: &[Group] = &[
    (
        "core.v1",
        "/api/v1",
        &[
            ("ConfigMap", "configmaps"),
            ("Endpoints", "endpoints"),
            ("Event", "events"),
            ("LimitRange", "limitranges"),
            ("Namespace", "/namespaces"),
            ("Node", "/nodes"),
            ("PersistentVolume", "/persistentvolumes"),
            ("PersistentVolumeClaim", "persistentvolumeclaims"),
            ("Pod", "pods"),
            ("PodTemplate", "podtemplates"),
            ("ReplicationController", "replicationcontrollers"),
            ("ResourceQuota", "resourcequotas"),
            ("Secret", "secrets"),
            ("Service", "services"),
            ("ServiceAccount", "serviceaccounts"),
        ],
    ),
    (
        "admissionregistration.k8s.io.v1",
        "/apis/admissionregistration.k8s.io/v1",
        &[
            ("MutatingAdmissionPolicy", "/mutatingadmissionpolicies"),
            ("MutatingAdmissionPolicyBinding", "/mutatingadmissionpolicybindings"),
            ("MutatingWebhookConfiguration", "/mutatingwebhookconfigurations"),
            ("ValidatingAdmissionPolicy", "/validatingadmissionpolicies"),
            ("ValidatingAdmissionPolicyBinding", "/validatingadmissionpolicybindings"),
            ("ValidatingWebhookConfiguration", "/validatingwebhookconfigurations"),
        ],
    ),
    (
        "apps.v1",
        "/apis/apps/v1",
        &[
            ("ControllerRevision", "controllerrevisions"),
            ("DaemonSet", "daemonsets"),
            ("Deployment", "deployments"),
            ("ReplicaSet", "replicasets"),
            ("StatefulSet", "statefulsets"),
        ],
    ),
    (
        "authentication.k8s.io.v1",
        "/apis/authentication.k8s.io/v1",
        &[("SelfSubjectReview", "/selfsubjectreviews"), ("TokenReview", "/tokenreviews")],
    ),
    (
        "authorization.k8s.io.v1",
        "/apis/authorization.k8s.io/v1",
        &[
            ("LocalSubjectAccessReview", "localsubjectaccessreviews"),
            ("SelfSubjectAccessReview", "/selfsubjectaccessreviews"),
            ("SelfSubjectRulesReview", "/selfsubjectrulesreviews"),
            ("SubjectAccessReview", "/subjectaccessreviews"),
        ],
    ),
    ("autoscaling.v1", "/apis/autoscaling/v1", &[("HorizontalPodAutoscaler", "horizontalpodautoscalers")]),
    ("autoscaling.v2", "/apis/autoscaling/v2", &[("HorizontalPodAutoscaler", "horizontalpodautoscalers")]),
    ("batch.v1", "/apis/batch/v1", &[("CronJob", "cronjobs"), ("Job", "jobs")]),
    (
        "certificates.k8s.io.v1",
        "/apis/certificates.k8s.io/v1",
        &[
            ("CertificateSigningRequest", "/certificatesigningrequests"),
            ("ClusterTrustBundle", "/clustertrustbundles"),
            ("PodCertificateRequest", "podcertificaterequests"),
        ],
    ),
    ("coordination.k8s.io.v1", "/apis/coordination.k8s.io/v1", &[("Lease", "leases")]),
    ("discovery.k8s.io.v1", "/apis/discovery.k8s.io/v1", &[("EndpointSlice", "endpointslices")]),
    ("events.k8s.io.v1", "/apis/events.k8s.io/v1", &[("Event", "events")]),
    (
        "flowcontrol.apiserver.k8s.io.v1",
        "/apis/flowcontrol.apiserver.k8s.io/v1",
        &[("FlowSchema", "/flowschemas"), ("PriorityLevelConfiguration", "/prioritylevelconfigurations")],
    ),
    (
        "networking.k8s.io.v1",
        "/apis/networking.k8s.io/v1",
        &[
            ("IPAddress", "/ipaddresses"),
            ("Ingress", "ingresses"),
            ("IngressClass", "/ingressclasses"),
            ("NetworkPolicy", "networkpolicies"),
            ("ServiceCIDR", "/servicecidrs"),
        ],
    ),
    ("node.k8s.io.v1", "/apis/node.k8s.io/v1", &[("RuntimeClass", "/runtimeclasses")]),
    ("policy.v1", "/apis/policy/v1", &[("PodDisruptionBudget", "poddisruptionbudgets")]),
    (
        "rbac.authorization.k8s.io.v1",
        "/apis/rbac.authorization.k8s.io/v1",
        &[
            ("ClusterRole", "/clusterroles"),
            ("ClusterRoleBinding", "/clusterrolebindings"),
            ("Role", "roles"),
            ("RoleBinding", "rolebindings"),
        ],
    ),
    (
        "resource.k8s.io.v1",
        "/apis/resource.k8s.io/v1",
        &[
            ("DeviceClass", "/deviceclasses"),
            ("DeviceTaintRule", "/devicetaintrules"),
            ("ResourceClaim", "resourceclaims"),
            ("ResourceClaimTemplate", "resourceclaimtemplates"),
            ("ResourceSlice", "/resourceslices"),
        ],
    ),
    ("scheduling.k8s.io.v1", "/apis/scheduling.k8s.io/v1", &[("PriorityClass", "/priorityclasses")]),
    (
        "storage.k8s.io.v1",
        "/apis/storage.k8s.io/v1",
        &[
            ("CSIDriver", "/csidrivers"),
            ("CSINode", "/csinodes"),
            ("CSIStorageCapacity", "csistoragecapacities"),
            ("StorageClass", "/storageclasses"),
            ("VolumeAttachment", "/volumeattachments"),
            ("VolumeAttributesClass", "/volumeattributesclasses"),
        ],
    ),
    (
        "storagemigration.k8s.io.v1",
        "/apis/storagemigration.k8s.io/v1",
        &[("StorageVersionMigration", "/storageversionmigrations")],
    ),
];

/// A scenario for each kind.
///
/// # Errors
/// When the module is not in Go's cache, where building kube-apiserver puts it.
pub fn scenarios() -> Result<Vec<Scenario>> {
    let folder = folder()?;
    let mut all = Vec::new();
    for (group, path, kinds) in GROUPS {
        for (kind, resource) in *kinds {
            let file = folder.join(format!("{group}.{kind}.json"));
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let path = match resource.strip_prefix('/') {
                Some(resource) => format!("{path}/{resource}"),
                None => format!("{path}/namespaces/{{{{ns}}}}/{resource}"),
            };
            let name =
                format!("corpus-{}-{}", group.split('.').next().unwrap_or_default(), kind.to_lowercase());
            let name = if *group == "autoscaling.v1" { format!("{name}-v1") } else { name };
            all.push(Scenario { name, steps: steps(&path, &serde_json::from_str(&text)?) });
        }
    }
    Ok(all)
}

/// The object is created and applied, each with a name of its own. Other metadata would be refused first.
fn steps(path: &str, object: &Value) -> Vec<Step> {
    let named = |name: &str| {
        let mut object = object.clone();
        object["metadata"] = json!({ "name": name });
        object
    };
    vec![
        Step::with(format!("POST {path}"), named("corpus-created")),
        Step::apply(format!("{path}/corpus-applied"), "corpus", false, named("corpus-applied")),
    ]
}

fn folder() -> Result<PathBuf> {
    let asked = Command::new("go").args(["env", "GOMODCACHE"]).output().context("go env GOMODCACHE")?;
    let cache = String::from_utf8(asked.stdout)?;
    let folder = Path::new(cache.trim()).join(MODULE).join("testdata/HEAD");
    if !folder.is_dir() {
        bail!("{} is missing: `cargo xtask peers` downloads it", folder.display());
    }
    Ok(folder)
}
