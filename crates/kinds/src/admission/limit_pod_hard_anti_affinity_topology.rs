//! LimitPodHardAntiAffinityTopology: no pod keeps others away from more than its node.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{items, text};

const HOSTNAME: &str = "kubernetes.io/hostname";
const TERMS: &str = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution";

/// Refuses a required anti-affinity of another topology than the node.
pub(super) fn validate(request: &Request<'_>, _: &dyn Cluster, pod: &Value) -> Result<Vec<String>, Status> {
    let mut keys = items(pod, TERMS).iter().map(|term| text(term, "topologyKey"));
    match keys.find(|key| *key != HOSTNAME).filter(|_| request.is_for("", "pods")) {
        Some(key) => Err(request.forbidden(&format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
        ))),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn pods_keep_others_from_their_node_at_most() {
        for (key, may) in [(HOSTNAME, true), ("topology.kubernetes.io/zone", false)] {
            let mut pod = json!({});
            crate::access::set(&mut pod, TERMS, json!([{ "topologyKey": HOSTNAME }, { "topologyKey": key }]));
            let judged = with_request("", "pods", None, |request| {
                validate(request, &Objects::new("", Vec::new()), &pod)
            });
            assert_eq!(judged.is_ok(), may, "{key}");
        }
    }
}
