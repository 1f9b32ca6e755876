//! The table of all plugins, in kube-apiserver's order.

use serde_json::Value;
use setpoint_api::status::Status;

use super::plugin::Plugin;
use super::pod_security_standards::PodSecurity;
use super::request::{Cluster, Configuration, Request};
use super::{
    always_pull_images, certificate_approval, certificate_signing, certificate_subject_restriction,
    default_ingress_class, default_storage_class, default_toleration_seconds, deny_service_external_ips,
    extended_resource_toleration, limit_pod_hard_anti_affinity_topology, limit_ranger,
    node_declared_feature_validator, owner_references_permission_enforcement, persistent_volume_claim_resize,
    pod_resize_validator, pod_security, pod_topology_labels, priority, runtime_class, service_account,
    storage_object_in_use_protection, taint_nodes_by_condition,
};

/// Changes an object before webhooks see it, or refuses it.
pub type Mutate = fn(&Request<'_>, &dyn Cluster, &mut Value) -> Result<(), Status>;
/// Refuses an object as it will be stored, or returns warnings.
pub type Validate = fn(&Request<'_>, &dyn Cluster, &Value) -> Result<Vec<String>, Status>;

/// Whether kube-apiserver has a plugin on unless a flag turns it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initially {
    /// On.
    On,
    /// Off.
    Off,
}

/// The implementation of a plugin here.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// It is implemented beside this table.
    Here {
        /// Its change.
        mutate: Option<Mutate>,
        /// Its judgement.
        validate: Option<Validate>,
    },
    /// It is implemented in the server, which asks whether it is on.
    InServer,
    /// It is not implemented and would guard something.
    Missing,
    /// It is not implemented and guards nothing.
    Idle,
}

/// A plugin.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub plugin: Plugin,
    /// Whether it is on by default.
    pub initially: Initially,
    /// Its implementation here.
    pub act: Act,
}

use Act::{Idle, InServer, Missing};
use Initially::{Off, On};

const fn row(plugin: Plugin, initially: Initially, act: Act) -> Row {
    Row { plugin, initially, act }
}

const fn mutates(mutate: Mutate) -> Act {
    Act::Here { mutate: Some(mutate), validate: None }
}

const fn validates(validate: Validate) -> Act {
    Act::Here { mutate: None, validate: Some(validate) }
}

const fn both(mutate: Mutate, validate: Validate) -> Act {
    Act::Here { mutate: Some(mutate), validate: Some(validate) }
}

/// All plugins, in the order in which kube-apiserver asks them.
pub const PLUGINS: [Row; 39] = [
    row(Plugin::AlwaysAdmit, Off, Idle),
    row(Plugin::NamespaceAutoProvision, Off, Idle),
    row(Plugin::NamespaceLifecycle, On, InServer),
    row(Plugin::NamespaceExists, Off, InServer),
    row(
        Plugin::LimitPodHardAntiAffinityTopology,
        Off,
        validates(limit_pod_hard_anti_affinity_topology::validate),
    ),
    row(Plugin::LimitRanger, On, both(limit_ranger::mutate, limit_ranger::validate)),
    row(Plugin::ServiceAccount, On, both(service_account::mutate, service_account::validate)),
    row(Plugin::NodeRestriction, Off, Missing),
    row(Plugin::TaintNodesByCondition, On, mutates(taint_nodes_by_condition::mutate)),
    row(Plugin::AlwaysPullImages, Off, both(always_pull_images::mutate, always_pull_images::validate)),
    row(Plugin::ImagePolicyWebhook, Off, Missing),
    row(Plugin::PodSecurity, On, validates(pod_security::validate)),
    row(Plugin::PodNodeSelector, Off, Missing),
    row(Plugin::Priority, On, both(priority::mutate, priority::validate)),
    row(Plugin::DefaultTolerationSeconds, On, mutates(default_toleration_seconds::mutate)),
    row(Plugin::PodTolerationRestriction, Off, Missing),
    row(Plugin::EventRateLimit, Off, Missing),
    row(Plugin::ExtendedResourceToleration, Off, mutates(extended_resource_toleration::mutate)),
    row(Plugin::DefaultStorageClass, On, mutates(default_storage_class::mutate)),
    row(Plugin::StorageObjectInUseProtection, On, mutates(storage_object_in_use_protection::mutate)),
    // The gate GenericWorkload is off by default, and PodGroups are not served.
    row(Plugin::PodGroupProtection, On, Idle),
    row(
        Plugin::OwnerReferencesPermissionEnforcement,
        Off,
        validates(owner_references_permission_enforcement::validate),
    ),
    row(Plugin::PersistentVolumeClaimResize, On, validates(persistent_volume_claim_resize::validate)),
    row(Plugin::RuntimeClass, On, both(runtime_class::mutate, runtime_class::validate)),
    row(Plugin::CertificateApproval, On, validates(certificate_approval::validate)),
    row(Plugin::CertificateSigning, On, validates(certificate_signing::validate)),
    // The gate ClusterTrustBundle is off by default, and ClusterTrustBundles are not served.
    row(Plugin::ClusterTrustBundleAttest, On, Idle),
    row(Plugin::CertificateSubjectRestriction, On, validates(certificate_subject_restriction::validate)),
    row(Plugin::DefaultIngressClass, On, mutates(default_ingress_class::mutate)),
    row(Plugin::DenyServiceExternalIPs, Off, validates(deny_service_external_ips::validate)),
    row(Plugin::PodTopologyLabels, On, mutates(pod_topology_labels::mutate)),
    row(Plugin::NodeDeclaredFeatureValidator, On, validates(node_declared_feature_validator::validate)),
    row(Plugin::PodResizeValidator, On, validates(pod_resize_validator::validate)),
    row(Plugin::MutatingAdmissionPolicy, On, Missing),
    row(Plugin::MutatingAdmissionWebhook, On, InServer),
    row(Plugin::ValidatingAdmissionPolicy, On, InServer),
    row(Plugin::ValidatingAdmissionWebhook, On, InServer),
    row(Plugin::ResourceQuota, On, InServer),
    row(Plugin::AlwaysDeny, Off, Missing),
];

impl Default for Configuration {
    fn default() -> Self {
        let plugins = PLUGINS.iter().filter(|row| row.initially == On).map(|row| row.plugin).collect();
        Configuration {
            plugins,
            not_ready_toleration_seconds: 300,
            unreachable_toleration_seconds: 300,
            pod_security: PodSecurity::default(),
        }
    }
}
