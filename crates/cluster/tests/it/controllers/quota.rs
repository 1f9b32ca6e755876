//! Quotas: a deleted object's charge is returned.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, LimitRange, Pod, ResourceQuota};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{World, deployment};

async fn used(world: &World, name: &str) -> Option<Value> {
    let status = world.api::<ResourceQuota>().get(name).await.unwrap().status?;
    Some(json!(status.used?))
}

async fn until_used(world: &World, name: &str, expected: Value) {
    let reached = async || used(world, name).await.filter(|used| *used == expected);
    world.until(&format!("{name} has used {expected}"), reached).await;
}

fn quota(name: &str, hard: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "hard": hard } })
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "web:1",
        "resources": { "requests": { "cpu": "100m" } } }] } })
}

#[tokio::test(start_paused = true)]
async fn what_ends_and_what_goes_is_given_back() {
    let world = World::start().await;
    world.create::<Pod>(pod("before")).await;
    let hard = json!({ "pods": "2", "requests.cpu": "1", "count/pods": "3", "count/configmaps": "3" });
    world.create::<ResourceQuota>(quota("q", hard)).await;
    // Every namespace has a ConfigMap with the authority's certificate.
    let all = |pods: &str, cpu: &str, count: &str, maps: &str| json!({ "pods": pods, "requests.cpu": cpu, "count/pods": count, "count/configmaps": maps });
    until_used(&world, "q", all("1", "100m", "1", "1")).await;
    world.create::<Pod>(pod("second")).await;
    world.create::<ConfigMap>(json!({ "metadata": { "name": "m" } })).await;
    assert_eq!(used(&world, "q").await.unwrap(), all("2", "200m", "2", "2"));
    let third: Pod = serde_json::from_value(pod("third")).unwrap();
    let refused = world.api::<Pod>().create(&PostParams::default(), &third).await.unwrap_err();
    let told = "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
    assert!(refused.to_string().contains(told), "{refused}");
    let ended = json!({ "status": { "phase": "Succeeded" } });
    world.api::<Pod>().patch_status("second", &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    until_used(&world, "q", all("1", "100m", "2", "2")).await;
    world.delete::<Pod>("second", &DeleteParams::default().grace_period(0)).await;
    world.delete::<ConfigMap>("m", &DeleteParams::default()).await;
    until_used(&world, "q", all("1", "100m", "1", "1")).await;
    // A changed quota is measured again.
    let other = json!({ "spec": { "hard": { "pods": "1", "count/configmaps": null } } });
    world.patch::<ResourceQuota>("q", other).await;
    until_used(&world, "q", json!({ "pods": "1", "requests.cpu": "100m", "count/pods": "1" })).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_gets_as_many_pods_as_fit() {
    let world = World::start().await;
    world.create::<ResourceQuota>(quota("q", json!({ "pods": "2", "limits.cpu": "1" }))).await;
    until_used(&world, "q", json!({ "pods": "0", "limits.cpu": "0" })).await;
    // The pods' only limits come from the LimitRange.
    let limits = json!([{ "type": "Container", "default": { "cpu": "200m" } }]);
    world.create::<LimitRange>(json!({ "metadata": { "name": "r" }, "spec": { "limits": limits } })).await;
    world.create::<Deployment>(deployment("web", 3, "web:1")).await;
    until_used(&world, "q", json!({ "pods": "2", "limits.cpu": "400m" })).await;
    world.cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(world.pods().await.len(), 2);
    world.patch::<ResourceQuota>("q", json!({ "spec": { "hard": { "pods": "9" } } })).await;
    // The ReplicaSet was refused often, and waits longer each time.
    world.cluster.advance(Duration::from_secs(600)).await;
    world.rolled_out("web").await;
    world.patch::<Deployment>("web", json!({ "spec": { "replicas": 1 } })).await;
    until_used(&world, "q", json!({ "pods": "1", "limits.cpu": "200m" })).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_come_later_are_counted() {
    let world = World::start().await;
    let hard = json!({ "count/things.example.com": "1", "count/secrets": "9" });
    world.create::<ResourceQuota>(quota("q", hard)).await;
    until_used(&world, "q", json!({ "count/secrets": "0" })).await;
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let definition = serde_json::from_value(json!({ "metadata": { "name": "things.example.com" }, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": { "plural": "things", "kind": "Thing" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }] } }));
    type Definition =
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let definitions: kube::Api<Definition> = kube::Api::all(world.client.clone());
    definitions.create(&PostParams::default(), &definition.unwrap()).await.unwrap();
    world.cluster.advance(Duration::from_secs(60)).await;
    until_used(&world, "q", json!({ "count/secrets": "0", "count/things.example.com": "0" })).await;
    let resource = kube::core::ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    };
    let things: kube::Api<kube::core::DynamicObject> =
        kube::Api::namespaced_with(world.client.clone(), "default", &resource);
    let create = async |name: &str| {
        things.create(&PostParams::default(), &kube::core::DynamicObject::new(name, &resource)).await
    };
    create("one").await.unwrap();
    assert!(create("two").await.unwrap_err().to_string().contains("exceeded quota: q"));
    things.delete("one", &DeleteParams::default()).await.unwrap();
    until_used(&world, "q", json!({ "count/secrets": "0", "count/things.example.com": "0" })).await;
    create("two").await.unwrap();
}
