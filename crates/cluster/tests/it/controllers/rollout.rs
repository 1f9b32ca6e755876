//! Deployments and ReplicaSets: what `kubectl rollout` and `kubectl scale` do.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::{World, deployment, image};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn revision(annotations: Option<&std::collections::BTreeMap<String, String>>) -> &str {
    annotations.and_then(|annotations| annotations.get(REVISION)).map_or("", String::as_str)
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_its_pods_and_says_so() {
    let world = World::start().await;
    world.create::<Deployment>(deployment("web", 4, "web:1")).await;
    let rolled = world.rolled_out("web").await;
    let conditions = world
        .until("the conditions say so", async || {
            let conditions = world.deployment("web").await.status?.conditions?;
            let reason = |type_: &str| {
                let found = conditions.iter().find(|condition| condition.type_.as_deref() == Some(type_));
                found.and_then(|condition| condition.reason.clone())
            };
            (reason("Progressing").as_deref() == Some("NewReplicaSetAvailable")).then(|| reason("Available"))
        })
        .await;
    assert_eq!(conditions.as_deref(), Some("MinimumReplicasAvailable"));
    assert_eq!(revision(rolled.metadata.annotations.as_ref()), "1");
    let [set] = &world.sets().await[..] else { panic!("one ReplicaSet") };
    assert_eq!(set.status.as_ref().unwrap().available_replicas, Some(4));
    let pods = world.pods().await;
    assert_eq!(pods.len(), 4);
    let nodes: Vec<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    assert_eq!(nodes.iter().filter(|node| *node == "node-0").count(), 2, "spread: {nodes:?}");
    let told = world
        .until("the events are written", async || {
            let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
            let scaled = events.iter().find(|event| event.reason.as_deref() == Some("ScalingReplicaSet"))?;
            scaled.message.clone()
        })
        .await;
    assert_eq!(told, format!("Scaled up replica set {} from 0 to 4", set.metadata.name.as_ref().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_new_image_rolls_and_undo_brings_the_old_one_back() {
    let world = World::start().await;
    world.create::<Deployment>(deployment("web", 4, "web:1")).await;
    world.rolled_out("web").await;
    world.patch::<Deployment>("web", image("web:2")).await;
    world.rolled_out("web").await;
    let sets = world.sets().await;
    let mut shown: Vec<_> = sets
        .iter()
        .map(|set| (revision(set.metadata.annotations.as_ref()), set.spec.replicas.unwrap()))
        .collect();
    shown.sort_unstable();
    assert_eq!(shown, [("1", 0), ("2", 4)]);
    // `kubectl rollout undo` does this: the template of the older ReplicaSet, without its hash.
    world.patch::<Deployment>("web", image("web:1")).await;
    let rolled = world.rolled_out("web").await;
    assert_eq!(revision(rolled.metadata.annotations.as_ref()), "3");
    assert_eq!(world.sets().await.len(), 2, "the older ReplicaSet is used again");
    // The successor of `extensions/v1beta1` rollbacks.
    let request = json!({ "metadata": { "annotations": { "deprecated.deployment.rollback.to": "2" } } });
    world.patch::<Deployment>("web", request).await;
    world
        .until("the template of revision 2 is back", async || {
            let deployment = world.deployment("web").await;
            let container = &deployment.spec.template.spec.as_ref()?.containers[0];
            (container.image.as_deref() == Some("web:2")).then_some(())
        })
        .await;
    let rolled = world.rolled_out("web").await;
    assert!(!rolled.metadata.annotations.unwrap().contains_key("deprecated.deployment.rollback.to"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_and_waits() {
    let world = World::start().await;
    world.create::<Deployment>(deployment("web", 2, "web:1")).await;
    world.rolled_out("web").await;
    world.patch::<Deployment>("web", json!({ "spec": { "paused": true } })).await;
    world.patch::<Deployment>("web", image("web:2")).await;
    world.patch::<Deployment>("web", json!({ "spec": { "replicas": 5 } })).await;
    world
        .until("it is scaled though paused", async || {
            let sets = world.sets().await;
            assert_eq!(sets.len(), 1, "nothing rolls while paused");
            (sets[0].status.as_ref()?.available_replicas == Some(5)).then_some(())
        })
        .await;
    world.patch::<Deployment>("web", json!({ "spec": { "paused": false } })).await;
    world.rolled_out("web").await;
    assert_eq!(world.sets().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn recreate_ends_all_old_pods_first() {
    let world = World::start().await;
    let mut manifest = deployment("web", 3, "web:1");
    manifest["spec"]["strategy"] = json!({ "type": "Recreate" });
    world.create::<Deployment>(manifest).await;
    world.rolled_out("web").await;
    world.patch::<Deployment>("web", image("web:2")).await;
    world
        .until("the rollout is over", async || {
            let pods = world.pods().await;
            let images: std::collections::BTreeSet<_> =
                pods.iter().filter_map(|pod| pod.spec.as_ref()?.containers[0].image.clone()).collect();
            assert!(images.len() <= 1, "old and new pods at once: {images:?}");
            super::is_rolled_out(&world.deployment("web").await).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_does_not_progress_says_so_after_its_deadline() {
    let world = World::start().await;
    let mut manifest = deployment("web", 2, "web:1");
    manifest["spec"]["progressDeadlineSeconds"] = json!(10);
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({ "test/broken": "yes" });
    world.create::<Deployment>(manifest).await;
    world
        .until("the deadline is exceeded", async || {
            let conditions = world.deployment("web").await.status?.conditions?;
            let progressing =
                conditions.into_iter().find(|condition| condition.type_.as_deref() == Some("Progressing"))?;
            (progressing.reason.as_deref() == Some("ProgressDeadlineExceeded")).then(|| {
                assert_eq!(progressing.status.as_deref(), Some("False"));
            })
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_adopted_released_and_replaced() {
    let world = World::start().await;
    let orphan = json!({ "metadata": { "name": "orphan", "namespace": "default", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "web:1" }] } });
    world.create::<Pod>(orphan).await;
    let set = json!({ "metadata": { "name": "web", "namespace": "default" }, "spec": { "replicas": 3,
        "selector": { "matchLabels": { "app": "web" } },
        "template": { "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "web:1" }] } } } });
    world.create::<ReplicaSet>(set).await;
    world
        .until("three are available", async || {
            let set: ReplicaSet = world.api().get("web").await.unwrap();
            (set.status?.available_replicas == Some(3)).then_some(())
        })
        .await;
    assert_eq!(world.pods().await.len(), 3, "the orphan counts");
    // Relabelled: released, and replaced.
    world.patch::<Pod>("orphan", json!({ "metadata": { "labels": { "app": "other" } } })).await;
    world
        .until("the released pod has no owner and is replaced", async || {
            let pods = world.pods().await;
            let orphan = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some("orphan"))?;
            (orphan.metadata.owner_references.is_none() && pods.len() == 4).then_some(())
        })
        .await;
    // Deleted: replaced.
    let pods = world.pods().await;
    let owned = pods.iter().find(|pod| pod.metadata.owner_references.is_some()).unwrap();
    let name = owned.metadata.name.clone().unwrap();
    world.delete::<Pod>(&name, &DeleteParams::default()).await;
    world
        .until("the deleted pod is replaced", async || {
            let pods = world.pods().await;
            let gone = pods.iter().all(|pod| pod.metadata.name.as_ref() != Some(&name));
            (gone && pods.len() == 4).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn min_ready_seconds_delay_availability() {
    let world = World::start().await;
    let mut manifest = deployment("web", 2, "web:1");
    manifest["spec"]["minReadySeconds"] = json!(10);
    let began = tokio::time::Instant::now();
    world.create::<Deployment>(manifest).await;
    world.rolled_out("web").await;
    assert!(began.elapsed().as_secs() >= 9, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_is_a_collision_that_another_hash_avoids() {
    let world = World::start().await;
    let created = world.create::<Deployment>(deployment("web", 1, "web:1")).await;
    world.rolled_out("web").await;
    let name = world.sets().await[0].metadata.name.clone().unwrap();
    world.delete::<Deployment>("web", &DeleteParams::background()).await;
    world
        .until("all of it is gone", async || {
            (world.sets().await.is_empty() && world.pods().await.is_empty()).then_some(())
        })
        .await;
    let stranger = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "replicas": 0,
        "selector": { "matchLabels": { "x": "y" } },
        "template": { "metadata": { "labels": { "x": "y" } },
            "spec": { "containers": [{ "name": "c", "image": "x" }] } } } });
    world.create::<ReplicaSet>(stranger).await;
    world.create::<Deployment>(deployment("web", 1, "web:1")).await;
    let rolled = world.rolled_out("web").await;
    assert_ne!(rolled.metadata.uid, created.metadata.uid);
    assert_eq!(rolled.status.unwrap().collision_count, Some(1));
}
