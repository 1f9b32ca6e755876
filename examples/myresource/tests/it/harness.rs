//! The harness itself: it takes state that was captured elsewhere, and says why a manager ended.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use myresource_operator::MyResource;
use operator_testing::{TestedOperator, World, until};
use serde_json::json;

use super::{OPERATOR, until_state};

/// `kubectl get myresources,deployments -o yaml`, shortened. The child stands before its owner.
const CAPTURED: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata:
    name: one-deployment
    namespace: default
    uid: 7c0c3c1e-0000-4000-8000-000000000002
    resourceVersion: "812"
    creationTimestamp: "2026-01-02T03:04:05Z"
    labels: {myresource: one}
    ownerReferences:
    - apiVersion: mygroup.example.com/v1alpha1
      kind: MyResource
      name: one
      uid: 7c0c3c1e-0000-4000-8000-000000000001
      controller: true
      blockOwnerDeletion: true
  spec:
    replicas: 1
    selector: {matchLabels: {myresource: one}}
    template:
      metadata: {labels: {myresource: one}}
      spec:
        containers: [{name: main, image: evil, resources: {requests: {memory: 512Mi}}}]
- apiVersion: mygroup.example.com/v1alpha1
  kind: MyResource
  metadata:
    name: one
    namespace: default
    uid: 7c0c3c1e-0000-4000-8000-000000000001
    resourceVersion: "810"
    generation: 4
  spec: {image: nginx, memory: 512Mi}
  status: {state: Ready}
"#;

#[tokio::test(start_paused = true)]
async fn captured_state_is_where_the_operator_goes_on() {
    let mut world = World::idle(OPERATOR).await;
    world.restore(CAPTURED).await;
    let owner = world.get::<MyResource>("one").await.unwrap();
    let child = world.get::<Deployment>("one-deployment").await.unwrap();
    assert_eq!(owner["status"]["state"], "Ready");
    assert_eq!(child["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"]);
    assert_ne!(owner["metadata"]["uid"], "7c0c3c1e-0000-4000-8000-000000000001");
    // Not collected as an orphan, and mended.
    world.run(world.cluster.client(), None);
    super::until_image(&world, "one-deployment", "nginx").await;
    until_state(&world, "one", "Ready").await;
    assert_eq!(
        world.get::<Deployment>("one-deployment").await.unwrap()["metadata"]["uid"],
        child["metadata"]["uid"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_says_that_the_manager_ended_and_why() {
    let mut world = World::idle(OPERATOR).await;
    world.run(world.cluster.client_as("nobody", &[]), None);
    // The wait ends just when the caches give up.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let wait = until("a state", async || None::<()>);
    let panic = AssertUnwindSafe(wait).catch_unwind().await.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("; the manager ended: caches of"), "{text}");
    assert!(text.contains("MyResource (the server answered 403 Forbidden"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn every_definition_is_installed() {
    fn two_definitions(image: &str) -> Vec<serde_json::Value> {
        let mut manifests = myresource_operator::manifests(image);
        let mut other = manifests[0].clone();
        other["metadata"]["name"] = json!("others.mygroup.example.com");
        other["spec"]["names"] =
            json!({"kind": "Other", "plural": "others", "singular": "other", "listKind": "OtherList"});
        manifests.push(other);
        manifests
    }
    let operator = TestedOperator { manifests: two_definitions, ..OPERATOR };
    let world = World::idle(operator).await;
    let other = json!({"apiVersion": "mygroup.example.com/v1alpha1", "kind": "Other",
        "metadata": {"name": "x"}, "spec": {"image": "nginx", "memory": "1Gi"}});
    world.try_apply(&other).await.unwrap();
}
