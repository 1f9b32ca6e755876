//! NodeDeclaredFeatureValidator: a pod on a node changes only as the node says that it can.

use serde_json::Value;
use setpoint_api::quantity::Quantity;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{at, items, text};

/// Refuses a change that the node of the pod does not support.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    pod: &Value,
) -> Result<Vec<String>, Status> {
    let concerned = request.is_for("", "pods") || request.is_for_part("", "pods", "resize");
    let generation = |pod: &Value| at(pod, "metadata.generation").as_i64();
    let Some(old) = request.old.filter(|old| concerned && generation(old) != generation(pod)) else {
        return Ok(Vec::new());
    };
    let (name, mut needed) = (text(pod, "spec.nodeName"), needed(old, pod));
    if name.is_empty() || needed.is_empty() {
        return Ok(Vec::new());
    }
    let Some(node) = cluster.get("", "nodes", "", name) else {
        return Err(request.forbidden(&format!("node \"{name}\" not found")));
    };
    needed.retain(|feature| !items(&node, "status.declaredFeatures").iter().any(|own| own == feature));
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let needed = needed.join(", ");
    let why = format!("pod update requires features {needed} which are not available on node \"{name}\"");
    Err(request.forbidden(&why))
}

/// The features of a node that a change of a pod needs.
fn needed(old: &Value, new: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    if at(old, "spec.resources") != at(new, "spec.resources") {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let pairs = |list| items(old, list).iter().zip(items(new, list));
    let is_sidecar = |container: &Value| text(container, "restartPolicy") == "Always";
    let resized = |(old, new): (&Value, &Value)| at(old, "resources") != at(new, "resources");
    if pairs("spec.initContainers").any(|pair| !is_sidecar(pair.0) && resized(pair)) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    let size = |volume: &Value| Quantity::from_json(at(volume, "emptyDir.sizeLimit")).ok();
    let grown = |(old, new): (&Value, &Value)| {
        let same = text(old, "name") == text(new, "name") && text(new, "emptyDir.medium") == "Memory";
        same && size(old).zip(size(new)).is_some_and(|(old, new)| old != new)
    };
    if pairs("spec.volumes").any(grown) {
        needed.push("InPlacePodVerticalScalingMemoryBackedVolumes");
    }
    needed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_node_must_declare_what_a_change_needs() {
        let pod = |generation: i64, spec: Value| {
            let mut pod = json!({ "metadata": { "generation": generation }, "spec": spec });
            pod["spec"]["nodeName"] = json!("n");
            pod
        };
        let limit = |size: &str| json!({ "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory", "sizeLimit": size } }] });
        let init = |policy: Value, cpu: &str| json!({ "initContainers": [{ "name": "i", "restartPolicy": policy, "resources": { "requests": { "cpu": cpu } } }] });
        for (old, new, needed) in [
            (
                json!({ "resources": { "requests": { "cpu": "1" } } }),
                json!({}),
                "InPlacePodLevelResourcesVerticalScaling",
            ),
            (limit("1Gi"), limit("2Gi"), "InPlacePodVerticalScalingMemoryBackedVolumes"),
            (init(Value::Null, "1"), init(Value::Null, "2"), "InPlacePodVerticalScalingInitContainers"),
            (init(json!("Always"), "1"), init(json!("Always"), "2"), ""),
        ] {
            let judged = |generation: i64, declared: Value| {
                let node = json!({ "metadata": { "name": "n" }, "status": { "declaredFeatures": declared } });
                let cluster = Objects::new("nodes", vec![node]);
                let old = pod(1, old.clone());
                let new = pod(generation, new.clone());
                let judged =
                    with_request("", "pods/resize", Some(&old), |request| validate(request, &cluster, &new));
                judged.err().map(|status| status.message).unwrap_or_default()
            };
            let refused = judged(2, json!([]));
            assert!(refused.contains(needed) && refused.is_empty() == needed.is_empty(), "{new}: {refused}");
            assert_eq!(judged(2, json!([needed])), "", "declared");
            assert_eq!(judged(1, json!([])), "", "nothing of the spec changed");
        }
    }
}
