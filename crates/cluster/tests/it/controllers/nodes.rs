//! Pods on nodes that fail, are tainted or are deleted.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{World, deployment};

fn pod(name: &str, node: &str, tolerations: Value) -> Value {
    json!({ "metadata": { "name": name, "finalizers": ["test/keep"] }, "spec": { "nodeName": node,
        "tolerations": tolerations, "containers": [{ "name": "c", "image": "web:1" }] } })
}

async fn running(world: &World, name: &str) {
    world
        .until(&format!("{name} runs"), async || {
            let pod: Pod = world.api().get(name).await.unwrap();
            (pod.status?.phase? == "Running").then_some(())
        })
        .await;
}

async fn patch_node(world: &World, name: &str, patch: Value) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn advance(world: &World, seconds: u64) {
    world.cluster.advance(Duration::from_secs(seconds)).await;
}

async fn get(world: &World, name: &str) -> Value {
    json!(world.api::<Pod>().get(name).await.unwrap())
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

async fn messages(world: &World, reason: &str) -> Vec<String> {
    let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let about = events.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    about.filter_map(|event| event.message).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_are_marked_and_collected() {
    let world = World::start().await;
    world.create::<Pod>(pod("kept", "node-0", json!([]))).await;
    world
        .create::<Pod>(json!({ "metadata": { "name": "plain" }, "spec": { "nodeName": "node-0",
        "containers": [{ "name": "c", "image": "web:1" }] } }))
        .await;
    running(&world, "kept").await;
    running(&world, "plain").await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete("node-0", &DeleteParams::default()).await.unwrap();
    advance(&world, 35).await;
    assert_eq!(get(&world, "plain").await["status"]["phase"], "Running", "the node may come back");
    advance(&world, 10).await;
    assert!(world.api::<Pod>().get_opt("plain").await.unwrap().is_none());
    let kept = get(&world, "kept").await;
    assert_eq!(kept["status"]["phase"], "Failed");
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 0);
    let why = condition(&kept, "DisruptionTarget");
    assert_eq!(
        (&why["reason"], &why["message"]),
        (&json!("DeletionByPodGC"), &json!("PodGC: node no longer exists"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_taint_drives_pods_off_when_their_toleration_ends() {
    let world = World::start().await;
    let tolerate = |seconds: Option<i64>| json!([{ "key": "fault", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds }]);
    let pods = [("at-once", json!([])), ("later", tolerate(Some(30))), ("never", tolerate(None))];
    for (name, tolerations) in pods {
        world.create::<Pod>(pod(name, "node-0", tolerations)).await;
        running(&world, name).await;
    }
    let leaving = async |name: &str| !get(&world, name).await["metadata"]["deletionTimestamp"].is_null();
    let taint = json!([{ "key": "fault", "effect": "NoExecute" }]);
    patch_node(&world, "node-0", json!({ "spec": { "taints": taint } })).await;
    advance(&world, 5).await;
    assert_eq!(
        (leaving("at-once").await, leaving("later").await, leaving("never").await),
        (true, false, false)
    );
    let gone = get(&world, "at-once").await;
    let why = condition(&gone, "DisruptionTarget");
    assert_eq!(why["reason"], "DeletionByTaintManager");
    assert_eq!(why["message"], "Taint manager: deleting due to NoExecute taint");
    // The taint goes, and with it the time that had passed.
    patch_node(&world, "node-0", json!({ "spec": { "taints": null } })).await;
    advance(&world, 60).await;
    assert!(!leaving("later").await);
    let mut said = messages(&world, "TaintManagerEviction").await;
    said.sort();
    assert_eq!(
        said,
        ["Cancelling deletion of Pod default/later", "Marking for deletion Pod default/at-once"]
    );
    patch_node(&world, "node-0", json!({ "spec": { "taints": taint } })).await;
    advance(&world, 29).await;
    assert!(!leaving("later").await);
    advance(&world, 2).await;
    assert!(leaving("later").await && !leaving("never").await);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_and_its_pods_move() {
    let world = World::start().await;
    world.create::<Deployment>(deployment("web", 4, "web:1")).await;
    world.rolled_out("web").await;
    let on = async |node: &str| {
        let pods = world.pods().await;
        pods.into_iter()
            .filter(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node))
            .collect::<Vec<_>>()
    };
    assert_eq!(on("node-0").await.len(), 2);
    patch_node(&world, "node-0", json!({ "metadata": { "labels": { "test/dead": "" } } })).await;
    advance(&world, 40).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    assert_eq!(condition(&json!(nodes.get("node-0").await.unwrap()), "Ready")["status"], "True");
    advance(&world, 30).await;
    let node = json!(nodes.get("node-0").await.unwrap());
    let ready = condition(&node, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
    let taints: Vec<_> =
        node["spec"]["taints"].as_array().unwrap().iter().map(|t| (&t["key"], &t["effect"])).collect();
    let key = json!("node.kubernetes.io/unreachable");
    assert_eq!(taints, [(&key, &json!("NoSchedule")), (&key, &json!("NoExecute"))]);
    for pod in on("node-0").await {
        assert_eq!(condition(&json!(pod), "Ready")["status"], "False");
    }
    assert_eq!(messages(&world, "NodeNotReady").await.len(), 3, "the node's and two pods'");
    // Pods stay for the five minutes that admission gives them.
    advance(&world, 270).await;
    assert_eq!(on("node-0").await.len(), 2);
    advance(&world, 40).await;
    assert_eq!((on("node-0").await.len(), on("node-1").await.len()), (0, 4));
    // When every node is silent no pod is evicted: the fault may be the control plane's.
    patch_node(&world, "node-1", json!({ "metadata": { "labels": { "test/dead": "" } } })).await;
    advance(&world, 600).await;
    assert_eq!(on("node-1").await.len(), 4);
    let dark = nodes.get("node-1").await.unwrap();
    assert!(dark.spec.unwrap().taints.unwrap().iter().all(|taint| taint.effect == "NoSchedule"));
    // One that is back is free of taints.
    let back = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    patch_node(&world, "node-0", json!({ "metadata": { "labels": { "test/dead": null } } })).await;
    advance(&world, 20).await;
    nodes.patch_status("node-0", &PatchParams::default(), &Patch::Strategic(back)).await.unwrap();
    advance(&world, 1).await;
    assert_eq!(nodes.get("node-0").await.unwrap().spec.unwrap().taints, None);
}
