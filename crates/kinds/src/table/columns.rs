//! The columns of the built-in kinds.

use jiff::Timestamp;
use serde_json::Value;

use super::cells::*;
use super::cluster::*;
use super::{Column, pod, workload};

/// A column as the table below writes it.
#[derive(Debug)]
pub struct Spec {
    name: &'static str,
    type_: &'static str,
    format: &'static str,
    priority: i64,
}

impl Spec {
    pub(super) fn column(&self) -> Column {
        let description = match (self.format, self.name) {
            ("name", _) => "The object's name, unique within its scope.".to_owned(),
            (_, "Age" | "Created At") => "When the object was created.".to_owned(),
            (_, name) => format!("{name} of the object."),
        };
        Column {
            name: self.name.to_owned(),
            type_: self.type_.to_owned(),
            format: self.format.to_owned(),
            description,
            priority: self.priority,
        }
    }
}

/// A kind with its columns and what fills them.
#[derive(Debug)]
pub struct Kind {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    pub(super) columns: &'static [Spec],
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

pub(super) fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|one| one.kind == kind && one.group == group)
}

const NAME: Spec = Spec { name: "Name", type_: "string", format: "name", priority: 0 };
const AGE: Spec = s("Age");

const fn s(name: &'static str) -> Spec {
    Spec { name, type_: "string", format: "", priority: 0 }
}
const fn i(name: &'static str) -> Spec {
    Spec { name, type_: "integer", format: "", priority: 0 }
}
const fn b(name: &'static str) -> Spec {
    Spec { name, type_: "boolean", format: "", priority: 0 }
}
/// Shown by `-o wide` only.
const fn w(name: &'static str) -> Spec {
    Spec { name, type_: "string", format: "", priority: 1 }
}

/// Kinds without a printer of their own.
pub(super) const PLAIN: &[Spec] =
    &[NAME, Spec { name: "Created At", type_: "date", format: "", priority: 0 }];

const fn kind(
    group: &'static str,
    kind: &'static str,
    columns: &'static [Spec],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
) -> Kind {
    Kind { group, kind, columns, cells }
}

const CONTAINERS: Spec = w("Containers");
const IMAGES: Spec = w("Images");
const SELECTOR: Spec = w("Selector");

const ADMISSION: &str = "admissionregistration.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const BINDING: &[Spec] = &[NAME, s("Role"), AGE, w("Users"), w("Groups"), w("ServiceAccounts")];
const POLICY_BINDING: &[Spec] = &[NAME, s("PolicyName"), s("ParamRef"), AGE];
const WEBHOOKS: &[Spec] = &[NAME, i("Webhooks"), AGE];
const REPLICAS: &[Spec] = &[NAME, i("Desired"), i("Current"), i("Ready"), AGE, CONTAINERS, IMAGES, SELECTOR];

static KINDS: &[Kind] = &[
    kind(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[
            NAME,
            s("Scope"),
            s("Versions"),
            Spec { name: "Created At", type_: "date", format: "", priority: 0 },
            w("Group"),
            w("Kind"),
            w("ShortNames"),
            Spec { name: "Established", type_: "boolean", format: "", priority: 1 },
        ],
        definition,
    ),
    kind(
        "",
        "Pod",
        &[
            NAME,
            s("Ready"),
            s("Status"),
            s("Restarts"),
            AGE,
            w("IP"),
            w("Node"),
            w("Nominated Node"),
            w("Readiness Gates"),
        ],
        pod::cells,
    ),
    kind("", "PodTemplate", &[NAME, s("Containers"), s("Images"), s("Pod Labels")], workload::pod_template),
    kind("", "ReplicationController", REPLICAS, workload::replicas),
    kind(
        "",
        "Service",
        &[NAME, s("Type"), s("Cluster-IP"), s("External-IP"), s("Port(s)"), AGE, w("Selector")],
        service,
    ),
    kind("", "Endpoints", &[NAME, s("Endpoints"), AGE], endpoints),
    kind(
        "",
        "Node",
        &[
            NAME,
            s("Status"),
            s("Roles"),
            AGE,
            s("Version"),
            w("Internal-IP"),
            w("External-IP"),
            w("OS-Image"),
            w("Kernel-Version"),
            w("Container-Runtime"),
        ],
        node,
    ),
    kind(
        "",
        "Event",
        &[
            s("Last Seen"),
            s("Type"),
            s("Reason"),
            s("Object"),
            w("Subobject"),
            w("Source"),
            s("Message"),
            w("First Seen"),
            w("Count"),
            Spec { name: "Name", type_: "string", format: "name", priority: 1 },
        ],
        event,
    ),
    kind("", "Namespace", &[NAME, s("Status"), AGE], namespace),
    kind("", "Secret", &[NAME, s("Type"), s("Data"), AGE], secret),
    kind("", "ServiceAccount", &[NAME, AGE], name_and_age),
    kind("", "ConfigMap", &[NAME, s("Data"), AGE], config_map),
    kind(
        "",
        "PersistentVolume",
        &[
            NAME,
            s("Capacity"),
            s("Access Modes"),
            s("Reclaim Policy"),
            s("Status"),
            s("Claim"),
            s("StorageClass"),
            s("VolumeAttributesClass"),
            s("Reason"),
            AGE,
            w("VolumeMode"),
        ],
        persistent_volume,
    ),
    kind(
        "",
        "PersistentVolumeClaim",
        &[
            NAME,
            s("Status"),
            s("Volume"),
            s("Capacity"),
            s("Access Modes"),
            s("StorageClass"),
            s("VolumeAttributesClass"),
            AGE,
            w("VolumeMode"),
        ],
        persistent_volume_claim,
    ),
    kind("", "ResourceQuota", &[NAME, s("Request"), s("Limit"), AGE], resource_quota),
    kind(
        "apps",
        "Deployment",
        &[NAME, s("Ready"), s("Up-to-date"), s("Available"), AGE, CONTAINERS, IMAGES, SELECTOR],
        workload::deployment,
    ),
    kind("apps", "ReplicaSet", REPLICAS, workload::replicas),
    kind("apps", "StatefulSet", &[NAME, s("Ready"), AGE, CONTAINERS, IMAGES], workload::stateful_set),
    kind(
        "apps",
        "DaemonSet",
        &[
            NAME,
            i("Desired"),
            i("Current"),
            i("Ready"),
            i("Up-to-date"),
            i("Available"),
            s("Node Selector"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        workload::daemon_set,
    ),
    kind(
        "apps",
        "ControllerRevision",
        &[NAME, s("Controller"), s("Revision"), AGE],
        workload::controller_revision,
    ),
    kind(
        "batch",
        "Job",
        &[NAME, s("Status"), s("Completions"), s("Duration"), AGE, CONTAINERS, IMAGES, SELECTOR],
        workload::job,
    ),
    kind(
        "batch",
        "CronJob",
        &[
            NAME,
            s("Schedule"),
            s("Timezone"),
            b("Suspend"),
            i("Active"),
            s("Last Schedule"),
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
        workload::cron_job,
    ),
    kind(
        "policy",
        "PodDisruptionBudget",
        &[NAME, s("Min Available"), s("Max Unavailable"), i("Allowed Disruptions"), AGE],
        pod_disruption_budget,
    ),
    kind(
        "autoscaling",
        "HorizontalPodAutoscaler",
        &[NAME, s("Reference"), s("Targets"), s("MinPods"), s("MaxPods"), s("Replicas"), AGE],
        workload::autoscaler,
    ),
    kind("autoscaling", "Scale", &[s("Name"), i("Desired"), i("Available"), AGE], workload::scale),
    kind(NETWORKING, "Ingress", &[NAME, s("Class"), s("Hosts"), s("Address"), s("Ports"), AGE], ingress),
    kind(NETWORKING, "IngressClass", &[NAME, s("Controller"), s("Parameters"), AGE], ingress_class),
    kind(NETWORKING, "NetworkPolicy", &[NAME, s("Pod-Selector"), AGE], network_policy),
    kind(NETWORKING, "ServiceCIDR", &[NAME, s("CIDRs"), AGE], service_cidr),
    kind(NETWORKING, "IPAddress", &[NAME, s("ParentRef")], ip_address),
    kind(
        "discovery.k8s.io",
        "EndpointSlice",
        &[NAME, s("AddressType"), s("Ports"), s("Endpoints"), AGE],
        endpoint_slice,
    ),
    kind(RBAC, "RoleBinding", BINDING, role_binding),
    kind(RBAC, "ClusterRoleBinding", BINDING, role_binding),
    kind("coordination.k8s.io", "Lease", &[NAME, s("Holder"), AGE], lease),
    kind(
        STORAGE,
        "StorageClass",
        &[NAME, s("Provisioner"), s("ReclaimPolicy"), s("VolumeBindingMode"), s("AllowVolumeExpansion"), AGE],
        storage_class,
    ),
    kind(
        STORAGE,
        "CSIDriver",
        &[
            NAME,
            b("AttachRequired"),
            b("PodInfoOnMount"),
            b("StorageCapacity"),
            s("TokenRequests"),
            b("RequiresRepublish"),
            s("Modes"),
            AGE,
        ],
        csi_driver,
    ),
    kind(
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        &[NAME, s("PriorityLevel"), s("MatchingPrecedence"), s("DistinguisherMethod"), AGE, s("MissingPL")],
        flow_schema,
    ),
    kind(
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        &[
            NAME,
            s("Type"),
            s("NominalConcurrencyShares"),
            s("Queues"),
            s("HandSize"),
            s("QueueLengthLimit"),
            AGE,
        ],
        priority_level,
    ),
    kind("resource.k8s.io", "DeviceClass", &[NAME, AGE], name_and_age),
    kind("resource.k8s.io", "ResourceClaimTemplate", &[NAME, AGE], name_and_age),
    kind("apiregistration.k8s.io", "APIService", &[NAME, s("Service"), s("Available"), AGE], api_service),
    kind(STORAGE, "CSINode", &[NAME, i("Drivers"), AGE], csi_node),
    kind(
        STORAGE,
        "VolumeAttachment",
        &[
            NAME,
            Spec { name: "Attacher", type_: "string", format: "name", priority: 0 },
            s("PV"),
            s("Node"),
            b("Attached"),
            AGE,
        ],
        volume_attachment,
    ),
    kind(STORAGE, "VolumeAttributesClass", &[NAME, s("DriverName"), AGE], volume_attributes_class),
    kind(
        "scheduling.k8s.io",
        "PriorityClass",
        &[NAME, i("Value"), b("Global-Default"), AGE, s("PreemptionPolicy")],
        priority_class,
    ),
    kind("node.k8s.io", "RuntimeClass", &[NAME, s("Handler"), AGE], runtime_class),
    kind(ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS, webhooks),
    kind(ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS, webhooks),
    kind(ADMISSION, "ValidatingAdmissionPolicy", &[NAME, i("Validations"), s("ParamKind"), AGE], policy),
    kind(ADMISSION, "MutatingAdmissionPolicy", &[NAME, i("Mutations"), s("ParamKind"), AGE], policy),
    kind(ADMISSION, "ValidatingAdmissionPolicyBinding", POLICY_BINDING, policy_binding),
    kind(ADMISSION, "MutatingAdmissionPolicyBinding", POLICY_BINDING, policy_binding),
    kind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        &[NAME, AGE, s("SignerName"), s("Requestor"), s("RequestedDuration"), s("Condition")],
        certificate_request,
    ),
    kind("certificates.k8s.io", "ClusterTrustBundle", &[NAME, s("SignerName")], trust_bundle),
    kind(
        "certificates.k8s.io",
        "PodCertificateRequest",
        &[
            NAME,
            s("PodName"),
            s("ServiceAccountName"),
            s("NodeName"),
            s("SignerName"),
            s("State"),
            s("UnverifiedUserAnnotations"),
        ],
        pod_certificate,
    ),
    kind("", "ComponentStatus", &[NAME, s("Status"), s("Message"), s("Error")], component_status),
    kind(
        "resource.k8s.io",
        "DeviceTaintRule",
        &[NAME, s("Key"), s("Value"), s("Effect"), s("TimeAdded"), AGE],
        device_taint_rule,
    ),
];
