//! ReplicationControllers: pods, adoption, scale, and what a deletion leaves.

use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::api::{DeleteParams, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use super::World;

fn controller(replicas: i32) -> Value {
    json!({ "metadata": { "name": "web" }, "spec": { "replicas": replicas, "template": {
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "web:1" }] } } } })
}

impl World {
    /// Waits until the controller's status counts so many pods, all of them ready.
    async fn replicated(&self, replicas: i32) -> ReplicationController {
        self.until(&format!("{replicas} pods are ready"), async || {
            let found: ReplicationController = self.api().get("web").await.unwrap();
            let status = found.status.clone().unwrap_or_default();
            let counts = [
                Some(status.replicas),
                status.ready_replicas.or(Some(0)),
                status.available_replicas.or(Some(0)),
            ];
            (counts == [Some(replicas); 3] && status.observed_generation == found.metadata.generation)
                .then_some(found)
        })
        .await
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_keeps_its_number_of_pods() {
    let world = World::start().await;
    // An orphan that the selector, which the template's labels give, selects.
    let orphan = json!({ "metadata": { "name": "orphan", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "image": "web:1" }] } });
    world.create::<Pod>(orphan).await;
    world.create::<ReplicationController>(controller(3)).await;
    let found = world.replicated(3).await;
    assert_eq!(found.spec.unwrap().selector.unwrap()["app"], "web");
    let pods = world.pods().await;
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().any(|pod| pod.metadata.name.as_deref() == Some("orphan")), "adopted");
    for pod in &pods {
        let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(
            (owner.api_version.as_str(), owner.kind.as_str(), &owner.uid, owner.controller),
            ("v1", "ReplicationController", found.metadata.uid.as_ref().unwrap(), Some(true))
        );
    }
    // A pod whose labels no longer match is released and replaced.
    world.patch::<Pod>("orphan", json!({ "metadata": { "labels": { "app": "other" } } })).await;
    world
        .until("the pod is released and replaced", async || {
            let pods = world.pods().await;
            let released = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some("orphan"))?;
            (pods.len() == 4 && released.metadata.owner_references.is_none()).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_scaled_and_deleted_with_or_without_its_pods() {
    let world = World::start().await;
    world.create::<ReplicationController>(controller(4)).await;
    world.replicated(4).await;
    let scale = json!({ "spec": { "replicas": 2 } });
    let scaled = world
        .api::<ReplicationController>()
        .patch_scale("web", &PatchParams::default(), &kube::api::Patch::Merge(scale))
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(2));
    assert_eq!(scaled.status.unwrap().selector.as_deref(), Some("app=web"));
    world.replicated(2).await;
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.delete::<ReplicationController>("web", &orphan).await;
    world
        .until("the controller is gone", async || {
            world.api::<ReplicationController>().get_opt("web").await.unwrap().is_none().then_some(())
        })
        .await;
    assert!(world.pods().await.iter().all(|pod| pod.metadata.owner_references.is_none()));
    // A new controller adopts the orphans; its deletion takes them along.
    world.create::<ReplicationController>(controller(2)).await;
    world.replicated(2).await;
    assert_eq!(world.pods().await.len(), 2);
    world.delete::<ReplicationController>("web", &DeleteParams::background()).await;
    world.until("the pods are gone", async || world.pods().await.is_empty().then_some(())).await;
}
