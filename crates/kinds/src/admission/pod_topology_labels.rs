//! PodTopologyLabels: a pod on a node has the zone and the region of the node as labels.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{entries, object, text};

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Labels a new pod that names its node, or the Binding of a pod, whose labels the pod gets.
pub(super) fn mutate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    written: &mut Value,
) -> Result<(), Status> {
    let node = match (request.group, request.resource, request.subresource) {
        ("", "pods", "") if request.creates() => text(written, "spec.nodeName"),
        ("", "pods", "binding") if text(written, "target.kind") == "Node" => text(written, "target.name"),
        _ => return Ok(()),
    };
    let Some(node) = Some(node).filter(|node| !node.is_empty()) else { return Ok(()) };
    let Some(node) = cluster.get("", "nodes", "", node) else { return Ok(()) };
    for (label, value) in
        entries(&node, "metadata.labels").filter(|(label, _)| LABELS.contains(&label.as_str()))
    {
        object(written, "metadata.labels").insert(label.clone(), value.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;
    use crate::access::at;

    #[test]
    fn pods_and_bindings_get_the_zone_of_the_node() {
        let [zone, region] = LABELS;
        let node = json!({ "metadata": { "name": "n", "labels": { zone: "z", region: "r", "other": "o" } } });
        let cluster = Objects::new("nodes", vec![node]);
        let labels = |resource: &str, mut object: Value| {
            with_request("", resource, None, |request| mutate(request, &cluster, &mut object)).unwrap();
            at(&object, "metadata.labels").clone()
        };
        let placed = json!({ zone: "z", region: "r", "a": "b" });
        let pod = |node: &str| json!({ "metadata": { "labels": { "a": "b", zone: "mine" } }, "spec": { "nodeName": node } });
        assert_eq!(labels("pods", pod("n")), placed);
        assert_eq!(labels("pods", pod("absent")), pod("")["metadata"]["labels"]);
        assert_eq!(labels("pods", json!({ "spec": {} })), Value::Null);
        let binding = |kind: &str| json!({ "target": { "kind": kind, "name": "n" } });
        assert_eq!(labels("pods/binding", binding("Node")), json!({ zone: "z", region: "r" }));
        assert_eq!(labels("pods/binding", binding("Rack")), Value::Null);
    }
}
