//! The scheduler on a living cluster.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::World;

fn pod(name: &str, spec: Value) -> Value {
    let mut full = json!({ "containers": [{ "name": "c", "image": "web:1" }] });
    full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": full })
}

async fn refusal(world: &World, name: &str) -> String {
    world
        .until("it says why it waits", async || {
            let pod: Pod = world.api().get(name).await.unwrap();
            let scheduled =
                pod.status?.conditions?.into_iter().find(|condition| condition.type_ == "PodScheduled")?;
            assert_eq!(
                (scheduled.status.as_str(), scheduled.reason.as_deref()),
                ("False", Some("Unschedulable"))
            );
            scheduled.message
        })
        .await
}

async fn node_of(world: &World, name: &str) -> String {
    world
        .until("it has a node", async || {
            let pod: Pod = world.api().get(name).await.unwrap();
            pod.spec?.node_name
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_node_and_takes_the_first_that_fits() {
    let world = World::start().await;
    world.create::<Pod>(pod("picky", json!({ "nodeSelector": { "disk": "ssd" } }))).await;
    let why = refusal(&world, "picky").await;
    assert_eq!(why, "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.");
    world
        .until("an event says so too", async || {
            let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
            let failed =
                events.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"))?;
            failed.message.filter(|message| *message == why)
        })
        .await;
    world.add_node("node-ssd", "4", json!({ "disk": "ssd" })).await;
    assert_eq!(node_of(&world, "picky").await, "node-ssd");
}

#[tokio::test(start_paused = true)]
async fn room_that_a_pod_leaves_is_given_to_the_next() {
    let world = World::start().await;
    let big = |name: &str| {
        let resources = json!({ "requests": { "cpu": "6" } });
        pod(name, json!({ "containers": [{ "name": "c", "image": "web:1", "resources": resources }] }))
    };
    world.create::<Pod>(big("a")).await;
    world.create::<Pod>(big("b")).await;
    let nodes = [node_of(&world, "a").await, node_of(&world, "b").await];
    assert_ne!(nodes[0], nodes[1]);
    world.create::<Pod>(big("c")).await;
    assert_eq!(refusal(&world, "c").await, "0/2 nodes are available: 2 Insufficient cpu.");
    world.delete::<Pod>("a", &Default::default()).await;
    assert_eq!(node_of(&world, "c").await, nodes[0]);
}

#[tokio::test(start_paused = true)]
async fn cordon_taint_and_uncordon() {
    let world = World::start().await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let patch = async |name: &str, patch: Value| {
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    patch("node-0", json!({ "spec": { "unschedulable": true } })).await;
    patch(
        "node-1",
        json!({ "spec": { "taints": [{ "key": "only", "value": "db", "effect": "NoSchedule" }] } }),
    )
    .await;
    // The scheduler hears of it by its watch, a moment later than we do: both orders end in the same refusal.
    world.create::<Pod>(pod("plain", json!({ "nodeSelector": {} }))).await;
    let toleration = json!([{ "key": "only", "operator": "Equal", "value": "db", "effect": "NoSchedule" }]);
    world.create::<Pod>(pod("tolerant", json!({ "tolerations": toleration }))).await;
    assert_eq!(node_of(&world, "tolerant").await, "node-1");
    let why = refusal(&world, "plain").await;
    assert_eq!(
        why,
        "0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    );
    patch("node-0", json!({ "spec": { "unschedulable": false } })).await;
    assert_eq!(node_of(&world, "plain").await, "node-0");
}

#[tokio::test(start_paused = true)]
async fn pods_of_another_scheduler_and_gated_pods_are_left_alone() {
    let world = World::start().await;
    world.create::<Pod>(pod("foreign", json!({ "schedulerName": "mine" }))).await;
    world.create::<Pod>(pod("gated", json!({ "schedulingGates": [{ "name": "example.com/wait" }] }))).await;
    world.create::<Pod>(pod("plain", json!({}))).await;
    node_of(&world, "plain").await;
    for name in ["foreign", "gated"] {
        let pod: Pod = world.api().get(name).await.unwrap();
        assert_eq!(pod.spec.unwrap().node_name, None, "{name}");
    }
    world.patch::<Pod>("gated", json!({ "spec": { "schedulingGates": null } })).await;
    node_of(&world, "gated").await;
}
