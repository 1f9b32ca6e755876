//! DaemonSets follow the nodes that there are, roll from template to template, and keep their history.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::World;

fn daemon(change: Value) -> Value {
    let mut daemon = json!({ "metadata": { "name": "d", "namespace": "default" }, "spec": {
        "selector": { "matchLabels": { "app": "d" } },
        "template": { "metadata": { "labels": { "app": "d" } },
            "spec": { "containers": [{ "name": "c", "image": "d:1" }] } },
    } });
    for (key, value) in change.as_object().unwrap() {
        daemon["spec"][key] = value.clone();
    }
    daemon
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": image }] } } } })
}

async fn change_node(world: &World, name: &str, change: Value) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

fn taint(effect: &str) -> Value {
    json!({ "spec": { "taints": [{ "key": "t", "effect": effect }] } })
}

/// Pods that stay, as `node image`.
async fn daemons(world: &World) -> BTreeSet<String> {
    let staying = world.pods().await.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let shown = staying.map(|pod| {
        let spec = pod.spec.unwrap();
        format!("{} {}", spec.node_name.unwrap_or_default(), spec.containers[0].image.as_deref().unwrap())
    });
    shown.collect()
}

/// Waits until these daemons are all that there are, ready and counted.
async fn settled(world: &World, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
    world
        .until(&format!("{wanted:?}"), async || {
            let set: DaemonSet = world.api().get("d").await.unwrap();
            let status = set.status.unwrap_or_default();
            let count = i32::try_from(wanted.len()).unwrap();
            let counted = status.observed_generation == set.metadata.generation
                && status.number_available.unwrap_or(0) == count
                && status.desired_number_scheduled == count;
            (counted && daemons(world).await == wanted).then_some(())
        })
        .await;
}

/// The numbers of the revisions, each with the image that it keeps.
async fn revisions(world: &World) -> Vec<(i64, String)> {
    let all = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    let image = |revision: &ControllerRevision| {
        revision
            .data
            .0
            .pointer("/spec/template/spec/containers/0/image")
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    let mut shown: Vec<(i64, String)> =
        all.iter().map(|revision| (revision.revision.unwrap(), image(revision))).collect();
    shown.sort_unstable();
    shown
}

#[tokio::test(start_paused = true)]
async fn daemons_follow_the_nodes() {
    let world = World::start().await;
    world.create::<DaemonSet>(daemon(json!({}))).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    world.add_node("node-2", "8", json!({ "disk": "ssd" })).await;
    settled(&world, &["node-0 d:1", "node-1 d:1", "node-2 d:1"]).await;
    // Pods that may stay do stay, and the status counts them as misscheduled.
    change_node(&world, "node-0", taint("NoSchedule")).await;
    world
        .until("it is counted as misplaced", async || {
            let status = world.api::<DaemonSet>().get("d").await.unwrap().status.unwrap();
            (status.number_misscheduled == 1 && status.desired_number_scheduled == 2).then_some(())
        })
        .await;
    assert_eq!(daemons(&world).await.len(), 3);
    change_node(&world, "node-0", taint("NoExecute")).await;
    settled(&world, &["node-1 d:1", "node-2 d:1"]).await;
    // A cordoned node takes daemons all the same.
    change_node(&world, "node-0", json!({ "spec": { "taints": null, "unschedulable": true } })).await;
    settled(&world, &["node-0 d:1", "node-1 d:1", "node-2 d:1"]).await;
    let selective = json!({ "spec": { "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } } });
    world.patch::<DaemonSet>("d", selective).await;
    settled(&world, &["node-2 d:1"]).await;
    change_node(&world, "node-1", json!({ "metadata": { "labels": { "disk": "ssd" } } })).await;
    settled(&world, &["node-1 d:1", "node-2 d:1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_misses_one_node_at_a_time_and_can_be_undone() {
    let world = World::start().await;
    world.add_node("node-2", "8", json!({})).await;
    let on = |image: &str| [0, 1, 2].map(|index| format!("node-{index} {image}"));
    let on_all = async |image: &str| settled(&world, &on(image).each_ref().map(String::as_str)).await;
    world.create::<DaemonSet>(daemon(json!({ "minReadySeconds": 2, "revisionHistoryLimit": 1 }))).await;
    on_all("d:1").await;
    world.patch::<DaemonSet>("d", image("d:2")).await;
    world
        .until("all are new", async || {
            let status = world.api::<DaemonSet>().get("d").await.unwrap().status.unwrap();
            let (missed, updated) = (status.number_unavailable, status.updated_number_scheduled);
            assert!(missed.unwrap_or(0) <= 1, "{status:?}");
            (updated == Some(3) && missed.is_none()).then_some(())
        })
        .await;
    on_all("d:2").await;
    assert_eq!(revisions(&world).await, [(1, "d:1".to_owned()), (2, "d:2".to_owned())]);
    // As `kubectl rollout undo` does it.
    let all = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    let first = all.into_iter().find(|revision| revision.revision == Some(1)).unwrap();
    let back = Patch::Strategic(first.data.0);
    world.api::<DaemonSet>().patch("d", &PatchParams::default(), &back).await.unwrap();
    on_all("d:1").await;
    assert_eq!(revisions(&world).await, [(2, "d:2".to_owned()), (3, "d:1".to_owned())]);
    world.patch::<DaemonSet>("d", image("d:3")).await;
    on_all("d:3").await;
    world
        .until("the oldest is forgotten", async || {
            (revisions(&world).await == [(3, "d:1".to_owned()), (4, "d:3".to_owned())]).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn with_surge_a_node_is_never_without() {
    let world = World::start().await;
    let surge = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
    world.create::<DaemonSet>(daemon(json!({ "updateStrategy": surge, "minReadySeconds": 5 }))).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    world.patch::<DaemonSet>("d", image("d:2")).await;
    world
        .until("all are new", async || {
            let now = daemons(&world).await;
            for node in ["node-0", "node-1"] {
                assert!(now.iter().any(|shown| shown.starts_with(node)), "{now:?}");
            }
            assert!(now.len() <= 3, "{now:?}");
            (now.len() == 2 && now.iter().all(|shown| shown.ends_with("d:2"))).then_some(())
        })
        .await;
    settled(&world, &["node-0 d:2", "node-1 d:2"]).await;
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_somebody_to_delete() {
    let world = World::start().await;
    world.create::<DaemonSet>(daemon(json!({ "updateStrategy": { "type": "OnDelete" } }))).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    world.patch::<DaemonSet>("d", image("d:2")).await;
    world.cluster.advance(Duration::from_secs(60)).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    let on_first = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some("node-0");
    let name = world.pods().await.into_iter().find(on_first).unwrap().metadata.name.unwrap();
    world.delete::<Pod>(&name, &DeleteParams::default()).await;
    settled(&world, &["node-0 d:2", "node-1 d:1"]).await;
    let status = world.api::<DaemonSet>().get("d").await.unwrap().status.unwrap();
    assert_eq!(status.updated_number_scheduled, Some(1));
}

#[tokio::test(start_paused = true)]
async fn failed_daemons_are_replaced_less_and_less_often() {
    let world = World::start().await;
    change_node(&world, "node-1", taint("NoExecute")).await;
    let mut failing = daemon(json!({}));
    failing["spec"]["template"]["metadata"]["annotations"] = json!({ "test/failed": "" });
    world.create::<DaemonSet>(failing).await;
    // Deleted at once and after waits of 1, 2, 4, 8 and 16 seconds, when half a minute is over.
    world.cluster.advance(Duration::from_secs(36)).await;
    let told = world
        .until("it is said", async || {
            let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
            let failed =
                events.into_iter().filter(|event| event.reason.as_deref() == Some("FailedDaemonPod"));
            let told: i32 = failed.map(|event| event.count.unwrap_or(1)).sum();
            (told > 0).then_some(told)
        })
        .await;
    assert!((5..=6).contains(&told), "{told}");
}

#[tokio::test(start_paused = true)]
async fn orphans_are_taken_over_with_their_history() {
    let world = World::start().await;
    world.create::<DaemonSet>(daemon(json!({}))).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    let uids =
        async || world.pods().await.into_iter().map(|pod| pod.metadata.uid.unwrap()).collect::<BTreeSet<_>>();
    let before = uids().await;
    let orphan =
        DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..Default::default() };
    world.delete::<DaemonSet>("d", &orphan).await;
    world
        .until("it is gone", async || {
            world.api::<DaemonSet>().get_opt("d").await.unwrap().is_none().then_some(())
        })
        .await;
    world.create::<DaemonSet>(daemon(json!({}))).await;
    settled(&world, &["node-0 d:1", "node-1 d:1"]).await;
    assert_eq!(uids().await, before);
    assert_eq!(revisions(&world).await, [(1, "d:1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn crashes_leave_one_daemon_on_a_node_and_one_revision_of_a_template() {
    let mut world = World::with(11).await;
    world.create::<DaemonSet>(daemon(json!({}))).await;
    for version in ["d:2", "d:3"] {
        for _ in 0..5 {
            // The controllers die at an arbitrary point, and start again with nothing but the stored state.
            world.cluster.advance(Duration::from_millis(3)).await;
            world.crash().await;
            world.run_controllers();
        }
        world.patch::<DaemonSet>("d", image(version)).await;
    }
    settled(&world, &["node-0 d:3", "node-1 d:3"]).await;
    assert_eq!(world.pods().await.len(), 2);
    let images: Vec<String> = revisions(&world).await.into_iter().map(|(_, image)| image).collect();
    assert!(images.is_sorted_by(|a, b| a < b), "{images:?}");
}
