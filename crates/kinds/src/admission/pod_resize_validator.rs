//! PodResizeValidator: a pod on a node asks for no more than the node has.

use serde_json::Value;
use setpoint_api::quantity::Quantity;
use setpoint_api::status::{Status, StatusCause};

use super::request::{Cluster, Request};
use crate::access::{at, text};
use crate::resources::{Amounts, Side, add, amounts, of_spec};

/// Refuses a resize that cannot happen.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    pod: &Value,
) -> Result<Vec<String>, Status> {
    let concerned = request.is_for_part("", "pods", "resize") && !text(pod, "spec.nodeName").is_empty();
    let generation = |pod: &Value| at(pod, "metadata.generation").as_i64();
    let Some(_) = request.old.filter(|old| concerned && generation(old) != generation(pod)) else {
        return Ok(Vec::new());
    };
    let name = text(pod, "spec.nodeName");
    let Some(node) = cluster.get("", "nodes", "", name) else {
        return Err(request.forbidden(&format!("node \"{name}\" not found")));
    };
    let refuse =
        |why: &str, reason: &str| Err(request.forbidden(why).with_cause(StatusCause::new(reason, "", "")));
    let system = at(&node, "metadata.labels").get("kubernetes.io/os").and_then(Value::as_str);
    if let Some(system) = system.filter(|system| *system != "linux") {
        let why = format!("pod resize is only supported on linux nodes, node \"{name}\" is \"{system}\"");
        return refuse(&why, "UnsupportedPlatform");
    }
    let lacking = lacking(pod, &node);
    if lacking.is_empty() {
        return Ok(Vec::new());
    }
    let why = format!("node didn't have enough allocatable resources: {}", lacking.join("; "));
    refuse(&why, "NodeCapacity")
}

/// The resources of which the pod asks for more than the node has.
fn lacking(pod: &Value, node: &Value) -> Vec<String> {
    let mut requests = of_spec(pod, Side::Requests);
    add(&mut requests, &amounts(at(pod, "spec.overhead")));
    let allocatable = amounts(at(node, "status.allocatable"));
    let of = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(Quantity::whole(0));
    let mut lacking = Vec::new();
    for name in ["cpu", "memory"] {
        let (requested, allocatable) = (of(&requests, name), of(&allocatable, name));
        if requested > allocatable {
            let unit = |amount: Quantity| if name == "cpu" { amount.milli_value() } else { amount.value() };
            let (requested, allocatable) = (unit(requested), unit(allocatable));
            lacking.push(format!("{name}, requested: {requested}, allocatable: {allocatable}"));
        }
    }
    lacking
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_pod_asks_for_no_more_than_its_node_has() {
        let node = |name: &str, os: &str| {
            json!({ "metadata": { "name": name, "labels": { "kubernetes.io/os": os } },
            "status": { "allocatable": { "cpu": "1", "memory": "1Ki" } } })
        };
        let cluster = Objects::new("nodes", vec![node("n", "linux"), node("w", "windows")]);
        let pod = |generation: i64, node: &str, cpu: &str| {
            json!({ "metadata": { "generation": generation }, "spec": { "nodeName": node,
            "overhead": { "cpu": "100m" }, "containers": [{ "resources": { "requests": { "cpu": cpu, "memory": "1Ki" } } }] } })
        };
        let judged = |node: &str, generation: i64, cpu: &str| {
            let (old, new) = (pod(1, node, "1m"), pod(generation, node, cpu));
            let judged =
                with_request("", "pods/resize", Some(&old), |request| validate(request, &cluster, &new));
            judged.err().map(|status| status.message).unwrap_or_default()
        };
        assert_eq!(judged("n", 2, "900m"), "");
        let lacking =
            "node didn't have enough allocatable resources: cpu, requested: 1001, allocatable: 1000";
        assert!(judged("n", 2, "901m").ends_with(lacking));
        assert_eq!(judged("n", 1, "901m"), "", "nothing of the spec changed");
        assert!(judged("w", 2, "1m").ends_with("only supported on linux nodes, node \"w\" is \"windows\""));
        assert!(judged("gone", 2, "1m").ends_with("node \"gone\" not found"));
        assert_eq!(judged("", 2, "9"), "", "not on a node");
    }
}
