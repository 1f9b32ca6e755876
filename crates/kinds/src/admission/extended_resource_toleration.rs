//! ExtendedResourceToleration: a pod that asks for a device may run where only such pods may.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{entries, items, set, text};
use crate::resources::is_extended;

/// Adds a toleration for each extended resource of a pod.
pub(super) fn mutate(request: &Request<'_>, _: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    if !request.is_for("", "pods") {
        return Ok(());
    }
    let containers = ["spec.containers", "spec.initContainers"].into_iter().flat_map(|list| items(pod, list));
    let requests = containers.flat_map(|container| entries(container, "resources.requests"));
    let names: BTreeSet<&String> = requests.map(|(name, _)| name).filter(|name| is_extended(name)).collect();
    let mut tolerations = items(pod, "spec.tolerations").to_vec();
    for name in &names {
        let same = |one: &&mut Value| {
            text(one, "key") == *name
                && text(one, "operator") == "Exists"
                && text(one, "effect") == "NoSchedule"
                && text(one, "value").is_empty()
        };
        let toleration = json!({ "key": name, "operator": "Exists", "effect": "NoSchedule" });
        match tolerations.iter_mut().find(same) {
            Some(own) => *own = toleration,
            None => tolerations.push(toleration),
        }
    }
    if !names.is_empty() {
        set(pod, "spec.tolerations", tolerations.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_pod_tolerates_the_taints_of_its_devices() {
        let container = |resource: &str| json!({ "resources": { "requests": { resource: "1" } } });
        let mut pod = json!({ "spec": { "containers": [container("example.com/b"), container("cpu")],
            "initContainers": [container("example.com/a"), container("example.com/b")],
            "tolerations": [{ "key": "example.com/a", "operator": "Exists", "effect": "NoSchedule" }] } });
        let cluster = Objects::new("", Vec::new());
        with_request("", "pods", None, |request| mutate(request, &cluster, &mut pod)).unwrap();
        let keys: Vec<&str> = items(&pod, "spec.tolerations").iter().map(|one| text(one, "key")).collect();
        assert_eq!(keys, ["example.com/a", "example.com/b"]);
    }
}
