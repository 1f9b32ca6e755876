//! Which pods are collected, and what is written before they go.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::node;
use crate::pod::{disruption_target, is_terminal, node_name};

/// What somebody says of a node that will not come back while its pods are on their way out.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its node is gone.
    Orphaned,
    /// It is on its way out and has no node.
    Unscheduled,
    /// It is on its way out of a node that is out of service.
    OutOfService,
}

/// Why the pod is collected, if it is; `node` is the one that it is bound to, if there is such a node.
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

/// Whether the node does not report, and somebody has said that it will not.
pub fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !node::is_ready(node) && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// What the pod's status says before it goes: nobody else will ever say that it has ended. None if it says so already.
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
