//! TaintNodesByCondition: nothing is scheduled on a new node before the node says that it is ready.

use serde_json::{Value, json};
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{items, set, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Taints a new node. The node lifecycle controller removes the taint.
pub(super) fn mutate(request: &Request<'_>, _: &dyn Cluster, node: &mut Value) -> Result<(), Status> {
    if !request.is_for("", "nodes") || !request.creates() {
        return Ok(());
    }
    let mut taints = items(node, "spec.taints").to_vec();
    if !taints.iter().any(|one| text(one, "key") == NOT_READY && text(one, "effect") == "NoSchedule") {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        set(node, "spec.taints", Value::Array(taints));
    }
    Ok(())
}
