//! Validation, in kube-apiserver's words.
//!
//! Each function returns what is wrong; nothing means that the object is good. Causes come in the real
//! server's order; where that is the order of a Go map, which is none, they are sorted by key.

mod access_review;
mod admission_policy;
mod autoscaling;
mod batch;
mod job_policy;
mod config;
mod status;
mod cluster;
mod crd;
mod device;
mod csi;
mod admission;
mod event;
mod flow_control;
mod limits;
mod networking;
mod node;
mod policy;
mod rbac;
mod quota;
mod service;
mod storage;
mod workload;
mod pod;
mod trust;
mod certificates;
mod pem;
mod check;
mod meta;

use std::collections::BTreeSet;

use serde_json::Value;

pub use access_review::access_review;
pub use admission_policy::{Compile, Use, admission_policy, mutating_admission_policy};
pub use config::FROZEN;
pub use crd::same_in_all_versions;
pub use meta::{annotations, label_selector, labels};

use crate::access::text;
use crate::facts::Facts;
use check::Causes;
pub use check::Policy;
use cluster::Indexed;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name::NameRule;

/// A new object, after defaults and [`crate::strategy::create`].
pub fn create(facts: &Facts, object: &Value, policy: Policy) -> Vec<Cause> {
    let mut causes = Causes::under(policy);
    if facts.key() == ("", "Event") {
        // Its own rules come first; the newer group's have the metadata among them.
        event::create(&mut causes, facts, object);
    } else {
        causes.extend(match facts.kind {
            "CustomResourceDefinition" => meta::create(facts, object, |name, _| crd::name(object, name)),
            "IPAddress" => meta::create(facts, object, |name, _| cluster::address_name(name)),
            "ClusterTrustBundle" => {
                meta::create(facts, object, |name, prefix| trust::bundle_name(object, name, prefix))
            }
            _ => meta::create(facts, object, |name, prefix| facts.name.check(name, prefix)),
        });
        causes.extend(meta::standard_finalizers(facts, object));
        new(&mut causes, facts, object);
    }
    if causes.0.is_empty() {
        causes.extend(meta::create(facts, object, path_segment));
    }
    once(causes.0)
}

fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    NameRule::PathSegment.check(name, prefix)
}

/// A changed object, after [`crate::strategy::update`].
pub fn update(facts: &Facts, object: &Value, old: &Value, policy: Policy) -> Vec<Cause> {
    let mut causes = Causes::under(policy);
    causes.extend(meta::create(facts, object, path_segment));
    causes.extend(meta::update(object, old));
    if matches!(
        facts.key(),
        ("", "ConfigMap" | "LimitRange" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "Pod")
            | ("", "ResourceQuota" | "Secret" | "Service" | "ServiceAccount")
            | ("apps" | "batch", _)
    ) {
        // These are judged as if they were new.
        causes.extend(meta::standard_finalizers(facts, object));
    }
    changed(&mut causes, facts, object, old);
    once(causes.0)
}

/// A changed status, after [`crate::strategy::update_status`].
pub fn update_status(facts: &Facts, object: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    causes.extend(meta::create(facts, object, path_segment));
    causes.extend(meta::update(object, old));
    status::changed(&mut causes, facts, object, old);
    once(causes.0)
}

/// A write to a subresource that takes the whole object, after [`crate::strategy::update_subresource`].
pub fn update_subresource(
    facts: &Facts,
    subresource: &str,
    object: &Value,
    old: &Value,
    policy: Policy,
) -> Vec<Cause> {
    let judge: fn(&mut Causes, &Value, &Value) = match (facts.kind, subresource) {
        (_, "status") => return update_status(facts, object, old),
        ("Pod", "ephemeralcontainers") => pod::ephemeral_containers,
        ("Pod", "resize") => pod::resize,
        ("CertificateSigningRequest", _) => |causes, object, old| {
            certificates::status_update(causes, object, old, certificates::Part::Approval)
        },
        ("Namespace", _) => |causes, object, _| cluster::namespace_finalizers(causes, object, Indexed::Yes),
        _ => return update(facts, object, old, policy),
    };
    let mut causes = Causes::under(policy);
    causes.extend(meta::create(facts, object, path_segment));
    causes.extend(meta::update(object, old));
    judge(&mut causes, object, old);
    once(causes.0)
}

/// The addresses and address families of a service, which are looked at before any is given out.
pub(crate) fn service_addresses(service: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    service::cluster_ips(&mut causes, &service["spec"], &Path::new("spec"));
    causes.0
}

/// The target of a pod's binding.
pub fn binding(object: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (kind, name) = (text(object, "target.kind"), text(object, "target.name"));
    if !matches!(kind, "" | "Node") {
        causes.push(Cause::not_supported(&Path::new("target.kind"), kind, &["Node", "<empty>"]));
    }
    if name.is_empty() {
        causes.required(&Path::new("target.name"), "");
    } else if matches!(kind, "" | "Node") {
        causes.wrong(&Path::new("target.name"), name, &setpoint_api::name::dns1123_subdomain(name));
    }
    causes.0
}

/// The common and the kind's own checks overlap; each cause is told once.
fn once(causes: Vec<Cause>) -> Vec<Cause> {
    // One body can have hundreds of thousands of faults: comparing each with each would take minutes.
    let mut told = BTreeSet::new();
    let is_new = |cause: &Cause| told.insert((cause.reason, cause.field.clone(), cause.message.clone()));
    causes.into_iter().filter(is_new).collect()
}

/// Checks a new object beside its metadata.
fn new(causes: &mut Causes, facts: &Facts, object: &Value) {
    match facts.key() {
        ("", "ConfigMap") => config::config_map(causes, object),
        ("", "Secret") => config::secret(causes, object),
        ("", "Pod") => pod::create(causes, object),
        ("", "PodTemplate") => pod::template(causes, &object["template"], &Path::new("template")),
        ("", "Namespace") => cluster::namespace_finalizers(causes, object, Indexed::No),
        ("", "ReplicationController") => workload::replication_controller(causes, object),
        ("", "Service") => service::service(causes, object),
        ("", "PersistentVolumeClaim") => storage::claim(causes, object),
        ("", "PersistentVolume") => storage::volume(causes, object),
        ("", "Endpoints") => networking::endpoints(causes, object),
        ("", "Node") => node::node(causes, object),
        ("", "ResourceQuota") => quota::resource_quota(causes, object),
        ("", "LimitRange") => limits::limit_range(causes, object),
        ("apps", "Deployment") => workload::deployment(causes, object),
        ("apps", "ReplicaSet") => workload::replica_set(causes, object),
        ("apps", "StatefulSet") => workload::stateful_set(causes, object),
        ("apps", "DaemonSet") => workload::daemon_set(causes, object),
        ("apps", "ControllerRevision") => workload::controller_revision(causes, object),
        ("batch", "Job") => batch::job(causes, object),
        ("batch", "CronJob") => batch::cron_job(causes, object, true),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::autoscaler(causes, object),
        ("policy", "PodDisruptionBudget") => policy::disruption_budget(causes, object),
        ("networking.k8s.io", "Ingress") => networking::ingress(causes, object),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class(causes, object),
        ("networking.k8s.io", "IPAddress") => cluster::address(causes, object),
        ("networking.k8s.io", "ServiceCIDR") => cluster::service_cidr(causes, object),
        ("networking.k8s.io", "NetworkPolicy") => networking::network_policy(causes, object),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice(causes, object),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            rbac::role(causes, object, facts.namespaced);
        }
        ("rbac.authorization.k8s.io", _) => rbac::binding(causes, object, facts.namespaced),
        ("certificates.k8s.io", "CertificateSigningRequest") => certificates::request(causes, object),
        ("certificates.k8s.io", "ClusterTrustBundle") => trust::bundle(causes, object),
        ("certificates.k8s.io", "PodCertificateRequest") => trust::pod_certificate(causes, object),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow_control::flow_schema(causes, object),
        ("flowcontrol.apiserver.k8s.io", _) => flow_control::priority_level(causes, object),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class(causes, object),
        ("storagemigration.k8s.io", _) => cluster::migration(causes, object),
        ("resource.k8s.io", "DeviceClass") => device::class(causes, object),
        ("resource.k8s.io", "DeviceTaintRule") => device::taint_rule(causes, object),
        ("resource.k8s.io", "ResourceClaim") => device::claim(causes, object),
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template(causes, object),
        ("resource.k8s.io", "ResourceSlice") => device::slice(causes, object),
        ("coordination.k8s.io", "Lease") => policy::lease(causes, object),
        ("storage.k8s.io", "StorageClass") => storage::class(causes, object),
        ("storage.k8s.io", "CSIDriver") => csi::driver(causes, object),
        ("storage.k8s.io", "CSINode") => csi::node(causes, object),
        ("storage.k8s.io", "CSIStorageCapacity") => csi::capacity(causes, object),
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment(causes, object),
        ("storage.k8s.io", "VolumeAttributesClass") => csi::attributes_class(causes, object),
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class(causes, object),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => admission::webhooks(causes, object),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            admission_policy::binding(causes, object);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            admission_policy::mutating_binding(causes, object);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::definition(causes, object, &Value::Null),
        _ => {}
    }
}

/// Checks a changed object. Kinds without rules for changes are checked as if they were new.
fn changed(causes: &mut Causes, facts: &Facts, object: &Value, old: &Value) {
    match facts.key() {
        ("", "ConfigMap") => config::config_map_update(causes, object, old),
        ("", "Secret") => config::secret_update(causes, object, old),
        ("", "Pod") => pod::update(causes, object, old),
        ("", "Service") => service::service_update(causes, object, old),
        ("", "PersistentVolumeClaim") => storage::claim_update(causes, object, old),
        ("", "PersistentVolume") => storage::volume_update(causes, object, old),
        ("", "Node") => {
            node::node(causes, object);
            node::node_update(causes, object, old);
        }
        ("", "Event") => event::update(causes, object, old),
        ("", "ResourceQuota") => quota::resource_quota_update(causes, object, old),
        ("apps", "StatefulSet") => workload::stateful_set_update(causes, object, old),
        ("apps", "DaemonSet") => {
            workload::immutable_selector(causes, object, old);
            new(causes, facts, object);
        }
        ("apps", "Deployment" | "ReplicaSet") => {
            new(causes, facts, object);
            workload::immutable_selector(causes, object, old);
        }
        ("apps", "ControllerRevision") => workload::controller_revision_update(causes, object, old),
        ("batch", "Job") => batch::job_update(causes, object, old),
        ("batch", "CronJob") => batch::cron_job(causes, object, false),
        ("networking.k8s.io", "IngressClass") => networking::ingress_class_update(causes, object, old),
        ("discovery.k8s.io", "EndpointSlice") => networking::endpoint_slice_update(causes, object, old),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::binding_update(causes, object, old, facts.namespaced);
        }
        ("storage.k8s.io", "StorageClass") => storage::class_update(causes, object, old),
        ("storage.k8s.io", "CSIDriver") => csi::driver_update(causes, object, old),
        ("storage.k8s.io", "CSINode") => csi::node_update(causes, object, old),
        ("storage.k8s.io", "CSIStorageCapacity") => csi::capacity_update(causes, object, old),
        ("storage.k8s.io", "VolumeAttachment") => csi::attachment_update(causes, object, old),
        ("storage.k8s.io", "VolumeAttributesClass") => csi::attributes_class_update(causes, object, old),
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class_update(causes, object, old),
        ("networking.k8s.io", "IPAddress") => cluster::address_update(causes, object, old),
        ("networking.k8s.io", "ServiceCIDR") => cluster::service_cidr_update(causes, object, old),
        ("storagemigration.k8s.io", _) => cluster::migration_update(causes, object, old),
        ("certificates.k8s.io", "ClusterTrustBundle") => trust::bundle_update(causes, object, old),
        ("certificates.k8s.io", "PodCertificateRequest") => {
            trust::pod_certificate_update(causes, object, old);
        }
        ("resource.k8s.io", "ResourceClaim") => device::claim_update(causes, object, old),
        ("resource.k8s.io", "ResourceClaimTemplate") => device::template_update(causes, object, old),
        ("resource.k8s.io", "ResourceSlice") => device::slice_update(causes, object, old),
        // The status and the finalizers have subresources of their own.
        ("", "Namespace") => {}
        ("scheduling.k8s.io", "PriorityClass") => policy::priority_class_update(causes, object, old),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::definition(causes, object, old),
        _ => new(causes, facts, object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared each with each, they would take longer than anybody waits for a test.
    #[test]
    fn a_body_full_of_faults_is_read_once() {
        let fault = |at: usize| Cause::required(&Path::new("spec.list").index(at), "");
        let causes: Vec<Cause> = (0..60_000).map(fault).chain([fault(7)]).collect();
        assert_eq!(once(causes).len(), 60_000);
    }
}
