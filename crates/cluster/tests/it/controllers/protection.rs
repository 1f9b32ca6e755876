//! An object in use outlives its deletion until it is unused. No other object does.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::World;

fn claim(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } })
}

/// Pods of which only finalizers are left keep their claims too: one holds the pod where the test can look.
fn pod(name: &str, claim: &str) -> Value {
    json!({ "metadata": { "name": name, "finalizers": ["example.com/hold"] }, "spec": {
        "containers": [{ "name": "c", "image": "web:1" }],
        "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] } })
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_with_the_last_pod_that_uses_it() {
    let world = World::start().await;
    let claims = world.api::<PersistentVolumeClaim>();
    for name in ["used", "unused"] {
        world.create::<PersistentVolumeClaim>(claim(name)).await;
    }
    world.create::<Pod>(pod("user", "used")).await;
    let pods = world.api::<Pod>();
    world.until("it has a node", async || pods.get("user").await.unwrap().spec?.node_name).await;
    for name in ["used", "unused"] {
        world.delete::<PersistentVolumeClaim>(name, &DeleteParams::default()).await;
    }
    let gone = async |name: &str| claims.get_opt(name).await.unwrap().is_none().then_some(());
    world.until("the unused one is gone", async || gone("unused").await).await;
    world.delete::<Pod>("user", &DeleteParams::default()).await;
    world
        .until("only the finalizer holds the pod", async || {
            let held = pods.get("user").await.unwrap().metadata;
            (held.deletion_grace_period_seconds == Some(0)).then_some(())
        })
        .await;
    world.cluster.advance(std::time::Duration::from_secs(60)).await;
    let kept = claims.get("used").await.unwrap().metadata;
    assert!(kept.deletion_timestamp.is_some());
    assert_eq!(kept.finalizers.unwrap(), ["kubernetes.io/pvc-protection"]);
    world.patch::<Pod>("user", json!({ "metadata": { "finalizers": null } })).await;
    world.until("the used one is gone", async || gone("used").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_was_taken_off_comes_back() {
    let world = World::start().await;
    world.create::<PersistentVolumeClaim>(claim("c")).await;
    let bare = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    world.patch::<PersistentVolumeClaim>("c", bare).await;
    let claims = world.api::<PersistentVolumeClaim>();
    world
        .until("both are there", async || {
            let finalizers = claims.get("c").await.unwrap().metadata.finalizers?;
            (finalizers == ["example.com/hold", "kubernetes.io/pvc-protection"]).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_claims_and_their_pods_goes() {
    let world = World::start().await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": "gone" } })).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client.clone(), "gone");
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "gone");
    for name in ["used", "unused"] {
        let claim = serde_json::from_value(claim(name)).unwrap();
        claims.create(&PostParams::default(), &claim).await.unwrap();
    }
    let mut user = pod("user", "used");
    user["metadata"]["finalizers"] = json!([]);
    let user: Pod = serde_json::from_value(user).unwrap();
    world.until("the pod is taken", async || pods.create(&PostParams::default(), &user).await.ok()).await;
    world.until("it has a node", async || pods.get("user").await.unwrap().spec?.node_name).await;
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    world
        .until("it is gone", async || namespaces.get_opt("gone").await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_bound_volume_keeps_its_class_and_itself() {
    let world = World::start().await;
    let classes: Api<VolumeAttributesClass> = Api::all(world.client.clone());
    let class = json!({ "metadata": { "name": "fast" }, "driverName": "example.com/d", "parameters": { "iops": "1" } });
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
    let volume = json!({ "metadata": { "name": "v" }, "spec": { "capacity": { "storage": "1Gi" },
        "accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "fast",
        "csi": { "driver": "example.com", "volumeHandle": "h" } } });
    volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    let mut claim = claim("c");
    claim["spec"]["storageClassName"] = json!("");
    claim["spec"]["volumeAttributesClassName"] = json!("fast");
    world.create::<PersistentVolumeClaim>(claim).await;
    world
        .until("they are bound", async || {
            let claim = world.api::<PersistentVolumeClaim>().get("c").await.unwrap();
            claim.status.filter(|status| status.phase.as_deref() == Some("Bound"))
        })
        .await;
    classes.delete("fast", &DeleteParams::default()).await.unwrap();
    volumes.delete("v", &DeleteParams::default()).await.unwrap();
    world.cluster.advance(std::time::Duration::from_secs(60)).await;
    for kept in [volumes.get("v").await.unwrap().metadata, classes.get("fast").await.unwrap().metadata] {
        assert!(kept.deletion_timestamp.is_some());
    }
    world.delete::<PersistentVolumeClaim>("c", &DeleteParams::default()).await;
    world
        .until("both are gone", async || {
            let volume = volumes.get_opt("v").await.unwrap();
            (volume.is_none() && classes.get_opt("fast").await.unwrap().is_none()).then_some(())
        })
        .await;
}
