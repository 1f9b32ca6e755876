//! Controllers of pods and their nodes.

use std::time::Duration;

use serde_json::json;

use super::{Surroundings, controller, is_sound, object, pod};

#[test]
fn pods_of_missing_nodes_are_collected() {
    let lost = |name: &str| pod(name, json!({"nodeName": "gone"}));
    is_sound(controller("podgc", Surroundings::default()).apply(lost("p")).apply(lost("q")));
}

#[test]
fn tainted_nodes_lose_their_pods() {
    let taints = json!([{"key": "out", "effect": "NoExecute"}]);
    let node = object("v1", "Node", "n", json!({"spec": {"taints": taints}}));
    let surroundings = Surroundings { objects: vec![node], ..Surroundings::default() };
    let toleration =
        json!([{"key": "out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]);
    let life = controller("tainteviction", surroundings)
        .apply(pod("now", json!({"nodeName": "n"})))
        .apply(pod("later", json!({"nodeName": "n", "tolerations": toleration})));
    is_sound(life);
}

#[test]
fn pods_are_scheduled() {
    let much = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}});
        json!({"containers": [{"name": "main", "image": "a", "resources": resources}]})
    };
    let life = controller("scheduler", Surroundings { nodes: 1, ..Surroundings::default() })
        .apply(pod("p", json!({})))
        .apply(pod("too-much", much("100000")))
        .apply(pod("q", much("100m")))
        .delete("p");
    is_sound(life);
}

#[test]
fn silent_nodes_are_tainted() {
    let node = |name: &str| object("v1", "Node", name, json!({}));
    // A node is silent for a minute before its pods are told.
    let proof = controller("nodelifecycle", Surroundings::default());
    let proof = proof.settings(|settings| settings.patience = Duration::from_secs(300));
    let life = proof.apply(node("one")).apply(pod("p", json!({"nodeName": "one"}))).apply(node("two"));
    is_sound(life.delete("two"));
}
