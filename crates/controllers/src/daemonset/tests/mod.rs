//! Tables: placement of pods, creation and deletion, counts.

mod history;
mod manage;
mod placement;
mod rolling;
mod status;
mod trigger;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::observed::Observed;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A DaemonSet `d` whose rolling update has these limits.
fn set(rolling: Value) -> DaemonSet {
    read(json!({ "metadata": { "name": "d", "namespace": "ns", "uid": "d-uid", "generation": 2,
            "annotations": { "deprecated.daemonset.template.generation": "7" } },
        "spec": { "selector": { "matchLabels": { "app": "d" } }, "minReadySeconds": 10,
            "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling },
            "template": { "metadata": { "labels": { "app": "d" } },
                "spec": { "containers": [{ "name": "c", "image": "d:1" }] } } } }))
}

fn one_at_a_time() -> DaemonSet {
    set(json!({ "maxUnavailable": 1, "maxSurge": 0 }))
}

fn node(name: &str, taints: &[(&str, &str)]) -> Node {
    let taints: Vec<Value> =
        taints.iter().map(|(key, effect)| json!({ "key": key, "effect": effect })).collect();
    read(json!({ "metadata": { "name": name, "labels": { "name": name } }, "spec": { "taints": taints } }))
}

fn nodes(names: &[&str]) -> Vec<Node> {
    names.iter().map(|name| node(name, &[])).collect()
}

/// A pod in a state: `-` waits for its node, `p` is bound and pending, `r` has just become ready, `a` is available,
/// `f` failed, `s` succeeded. A trailing `x` means that it is terminating.
fn pod(name: &str, node: &str, hash: &str, like: &str) -> Pod {
    let phase = match &like[..1] {
        "-" | "p" => "Pending",
        "f" => "Failed",
        "s" => "Succeeded",
        _ => "Running",
    };
    let mut value = json!({ "metadata": { "name": name, "uid": name, "creationTimestamp": ago(100),
            "labels": { "app": "d", "controller-revision-hash": hash } },
        "spec": { "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchFields": [
                { "key": "metadata.name", "operator": "In", "values": [node] }] }] } } } },
        "status": { "phase": phase } });
    if !like.starts_with('-') {
        value["spec"]["nodeName"] = json!(node);
    }
    let since = if like.starts_with('a') { 10 } else { 4 };
    if phase == "Running" {
        value["status"]["conditions"] =
            json!([{ "type": "Ready", "status": "True", "lastTransitionTime": ago(since) }]);
    }
    if like.ends_with('x') {
        value["metadata"]["deletionTimestamp"] = json!(ago(0));
    }
    read(value)
}

/// Pods from `node:hash:like`, named by their place in the list.
fn pods(list: &[&str]) -> Vec<Pod> {
    let parts = |text: &str| text.split(':').map(str::to_owned).collect::<Vec<_>>();
    let each = list.iter().map(|text| parts(text)).enumerate();
    each.map(|(index, parts)| pod(&format!("p{index}"), &parts[0], &parts[1], &parts[2])).collect()
}

fn observed<'a>(set: &'a DaemonSet, nodes: &'a [Node], pods: &'a [Pod]) -> Observed<'a> {
    Observed::new(set, "new", nodes.iter(), pods.iter(), now())
}

fn names<'a>(pods: &[&'a Pod]) -> Vec<&'a str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}
