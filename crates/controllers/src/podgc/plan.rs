//! Decides which pods are collected, and which status is written before.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::object::node;
use crate::object::pod::{disruption_target, is_terminal, node_name};

/// Taint that an administrator puts on a node that will not come back while its pods are terminating.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The reason why a pod is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The pod's node is gone.
    Orphaned,
    /// The pod is terminating and has no node.
    Unscheduled,
    /// The pod is terminating on a node that is out of service.
    OutOfService,
}

/// Returns the reason why the pod is collected, if it is. `node` is the pod's node, if it exists.
pub fn cause(pod: &Pod, node: Option<&Node>) -> Option<Cause> {
    let leaving = pod.metadata.deletion_timestamp.is_some();
    match node {
        None if !node_name(pod).is_empty() => Some(Cause::Orphaned),
        None => leaving.then_some(Cause::Unscheduled),
        Some(node) => (leaving && is_out_of_service(node)).then_some(Cause::OutOfService),
    }
}

/// Whether nothing is left to do about a pod but to wait for its finalizers.
pub fn is_settled(pod: &Pod) -> bool {
    let told = pod.metadata.deletion_timestamp.is_some();
    told && pod.metadata.deletion_grace_period_seconds == Some(0) && is_terminal(pod)
}

/// Whether the node does not report, and an administrator has marked it as out of service.
pub fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !node::is_ready(node) && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Returns the status of the pod before it is collected, because no node will report its end. `None` if the status is
/// right already.
pub fn failed(pod: &Pod, cause: Option<Cause>, now: Timestamp) -> Option<Value> {
    if is_terminal(pod) {
        return None;
    }
    let mut status = json!({ "phase": "Failed", "observedGeneration": pod.metadata.generation });
    if cause == Some(Cause::Orphaned)
        && let Some(condition) =
            disruption_target(pod, "DeletionByPodGC", "PodGC: node no longer exists", now)
    {
        status["conditions"] = json!([condition]);
    }
    Some(json!({ "metadata": { "uid": pod.metadata.uid }, "status": status }))
}
