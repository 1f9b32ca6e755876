//! Decides how many pods to create, or which to delete.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::rank;
use crate::object::field::replica_set_spec;

/// The most pods that one look creates or deletes; the rest follows at the next.
pub const BURST: usize = 500;

/// Pods to create or to delete.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub create: usize,
    /// Positions in the list of active pods.
    pub delete: Vec<usize>,
}

/// Decides. `related` are the pods of all ReplicaSets with the same owner: pods that share a node with many go first.
pub fn plan(set: &ReplicaSet, active: &[&Pod], related: &[&Pod], now: Timestamp) -> Plan {
    let wanted = usize::try_from(replica_set_spec(set).replicas.unwrap_or(1)).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_some() {
        return Plan::default();
    }
    if active.len() <= wanted {
        return Plan { create: (wanted - active.len()).min(BURST), delete: Vec::new() };
    }
    let surplus = (active.len() - wanted).min(BURST);
    let mut order: Vec<usize> = (0..active.len()).collect();
    if surplus < active.len() {
        order = rank::deletion_order(active, related, now);
    }
    order.truncate(surplus);
    Plan { create: 0, delete: order }
}

/// A pod of the ReplicaSet, controlled by `owner`.
pub fn pod_from_template(set: &ReplicaSet, owner: OwnerReference) -> Pod {
    let template = replica_set_spec(set).template.clone().unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    }
}
