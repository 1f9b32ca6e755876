//! Admission plugins: they fill in fields of an object or refuse a write, in kube-apiserver's order.
//!
//! [`PLUGINS`] is the list of all plugins. A plugin is one or two functions of a [`Request`] and of the [`Cluster`]:
//! one changes the object before webhooks see it, the other judges what will be stored.

mod table;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod service_account;
mod taint_nodes_by_condition;
mod always_pull_images;
mod pod_security;
mod priority;
mod default_toleration_seconds;
mod extended_resource_toleration;
mod default_storage_class;
mod storage_object_in_use_protection;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod runtime_class;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod default_ingress_class;
mod deny_service_external_ips;
mod pod_topology_labels;
mod node_declared_feature_validator;
mod pod_resize_validator;
mod default_class;
mod pod_secrets;
mod signer_rights;
mod pod_security_configuration;
mod request;
mod pod_security_standards;
mod plugin;
#[cfg(test)]
mod testing;

pub use plugin::Plugin;
pub use pod_security_configuration::InvalidConfiguration;
pub use pod_security_standards::{Exemptions, InvalidPolicy, Level, PodSecurity, PolicyVersion, Standard};
pub use request::{Cluster, Configuration, Operation, Request, Right};
pub use table::{Act, Initially, Mutate, PLUGINS, Row, Validate};

use serde_json::Value;
use setpoint_api::status::Status;

/// Lets the plugins that are on change the object. The first one that refuses it ends this.
pub fn mutate(request: &Request<'_>, cluster: &dyn Cluster, object: &mut Value) -> Result<(), Status> {
    for (_, mutate, _) in acting(request) {
        if let Some(mutate) = mutate {
            mutate(request, cluster, object)?;
        }
    }
    Ok(())
}

/// Lets the plugins that are on judge the object as it will be stored. Returns their warnings.
pub fn validate(request: &Request<'_>, cluster: &dyn Cluster, object: &Value) -> Result<Vec<String>, Status> {
    let mut warnings = Vec::new();
    for (_, _, validate) in acting(request) {
        if let Some(validate) = validate {
            warnings.extend(validate(request, cluster, object)?);
        }
    }
    Ok(warnings)
}

/// The plugins of this crate that are on, in order.
fn acting<'r>(
    request: &'r Request<'_>,
) -> impl Iterator<Item = (Plugin, Option<Mutate>, Option<Validate>)> + 'r {
    PLUGINS.iter().filter(|row| request.configuration.is_on(row.plugin)).filter_map(|row| match row.act {
        Act::Here { mutate, validate } => Some((row.plugin, mutate, validate)),
        Act::InServer | Act::Missing | Act::Idle => None,
    })
}
