//! DefaultTolerationSeconds: a pod stays a while on a node that fails, unless the pod says otherwise.

use serde_json::{Value, json};
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{items, set, text};

/// Adds the tolerations that a pod lacks.
pub(super) fn mutate(request: &Request<'_>, _: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    if !request.is_for("", "pods") {
        return Ok(());
    }
    let configuration = request.configuration;
    let mut tolerations = items(pod, "spec.tolerations").to_vec();
    for (key, seconds) in [
        ("node.kubernetes.io/not-ready", configuration.not_ready_toleration_seconds),
        ("node.kubernetes.io/unreachable", configuration.unreachable_toleration_seconds),
    ] {
        let known = items(pod, "spec.tolerations").iter().any(|one| {
            let same_key = text(one, "key") == key || text(one, "key").is_empty();
            same_key && matches!(text(one, "effect"), "NoExecute" | "")
        });
        if !known {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
            tolerations.push(toleration);
        }
    }
    if !tolerations.is_empty() {
        set(pod, "spec.tolerations", Value::Array(tolerations));
    }
    Ok(())
}
