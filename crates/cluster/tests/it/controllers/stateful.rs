//! StatefulSets: in order, each pod with its name and its claim.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::World;

fn stateful_set(replicas: i32, change: &Value) -> Value {
    let mut set = json!({ "metadata": { "name": "db", "namespace": "default" }, "spec": {
        "replicas": replicas, "serviceName": "db",
        "selector": { "matchLabels": { "app": "db" } },
        "template": { "metadata": { "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "c", "image": "db:1" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } } }],
    } });
    for (key, value) in change.as_object().into_iter().flatten() {
        set["spec"][key] = value.clone();
    }
    set
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": image }] } } } })
}

/// The ready pods' names with their images, sorted.
async fn ready(world: &World) -> Vec<String> {
    let pods = world.pods().await;
    let is_ready = |pod: &&Pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        pod.metadata.deletion_timestamp.is_none()
            && conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    let shown = |pod: &Pod| {
        let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone());
        format!("{} {}", pod.metadata.name.clone().unwrap_or_default(), image.unwrap_or_default())
    };
    let mut names: Vec<String> = pods.iter().filter(is_ready).map(shown).collect();
    names.sort_unstable();
    names
}

async fn until_ready(world: &World, expected: &[&str]) {
    let what = format!("these are ready: {expected:?}");
    world.until(&what, async || (ready(world).await == expected).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn pods_come_change_and_go_in_order_and_claims_stay() {
    let world = World::start().await;
    world.create::<StatefulSet>(stateful_set(3, &json!({}))).await;
    until_ready(&world, &["db-0 db:1", "db-1 db:1", "db-2 db:1"]).await;
    let born =
        |pod: &Pod| pod.metadata.resource_version.clone().and_then(|version| version.parse::<u64>().ok());
    let pods = world.pods().await;
    assert!(pods.is_sorted_by_key(born), "each waited for the one before it");
    world.patch::<StatefulSet>("db", image("db:2")).await;
    until_ready(&world, &["db-0 db:2", "db-1 db:2", "db-2 db:2"]).await;
    let status = world
        .until("the update is over", async || {
            let status = world.api::<StatefulSet>().get("db").await.unwrap().status?;
            (status.current_revision == status.update_revision).then_some(status)
        })
        .await;
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(3), Some(3)));
    let revisions = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(revisions.len(), 2);
    // Back to the first template: its revision becomes the newest again.
    world.patch::<StatefulSet>("db", image("db:1")).await;
    until_ready(&world, &["db-0 db:1", "db-1 db:1", "db-2 db:1"]).await;
    let revisions = world.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
    let mut numbers: Vec<Option<i64>> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(2), Some(3)]);
    world.patch::<StatefulSet>("db", json!({ "spec": { "replicas": 1 } })).await;
    until_ready(&world, &["db-0 db:1"]).await;
    world.delete::<StatefulSet>("db", &DeleteParams::default()).await;
    world.until("the pods go", async || world.pods().await.is_empty().then_some(())).await;
    let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.len(), 3, "claims outlive their pods and their StatefulSet");
}

#[tokio::test(start_paused = true)]
async fn claims_go_where_the_policy_says_so() {
    let world = World::start().await;
    let policy = json!({ "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Delete" } });
    world.create::<StatefulSet>(stateful_set(3, &policy)).await;
    until_ready(&world, &["db-0 db:1", "db-1 db:1", "db-2 db:1"]).await;
    let left = async |expected: &[&str]| {
        let what = format!("these claims are left: {expected:?}");
        world
            .until(&what, async || {
                let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
                let names: Vec<String> =
                    claims.items.into_iter().filter_map(|claim| claim.metadata.name).collect();
                (names == expected).then_some(())
            })
            .await;
    };
    world.patch::<StatefulSet>("db", json!({ "spec": { "replicas": 1 } })).await;
    left(&["data-db-0"]).await;
    world.delete::<StatefulSet>("db", &DeleteParams::default()).await;
    left(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_writes_loses_no_order() {
    let mut world = World::with(7).await;
    world.create::<StatefulSet>(stateful_set(3, &json!({}))).await;
    for version in ["db:2", "db:3"] {
        world.patch::<StatefulSet>("db", image(version)).await;
        for _ in 0..5 {
            // The controllers die at an arbitrary point, and start again with nothing but the stored state.
            world.cluster.advance(std::time::Duration::from_millis(3)).await;
            world.crash().await;
            world.run_controllers();
        }
    }
    until_ready(&world, &["db-0 db:3", "db-1 db:3", "db-2 db:3"]).await;
    let pods = world.pods().await;
    assert_eq!(pods.len(), 3);
}
