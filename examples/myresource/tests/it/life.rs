//! The life of a MyResource.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use myresource_operator::MyResource;
use operator_testing::{World, steady, until};
use serde_json::json;

use super::{OPERATOR, resource, until_gone, until_image, until_state};

#[tokio::test(start_paused = true)]
async fn a_resource_becomes_a_deployment_and_then_ready() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    assert_eq!(
        world.history("/myresources/default/one", "/status/state"),
        [json!("Building"), json!("Ready")]
    );
    let deployment = world.get::<Deployment>("one-deployment").await.unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("main"), &json!("nginx")));
    assert_eq!(container["resources"]["requests"]["memory"], "512Mi");
    let label = json!({"myresource": "one"});
    assert_eq!(deployment["metadata"]["labels"], label);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], label);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], label);
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("MyResource"), &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn a_changed_or_deleted_child_comes_back() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let drift = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil"}]}}}});
    world.change::<Deployment>("one-deployment", drift).await;
    until_image(&world, "one-deployment", "nginx").await;
    let before = world.get::<Deployment>("one-deployment").await.unwrap()["metadata"]["uid"].clone();
    world.delete::<Deployment>("one-deployment").await;
    until("a new Deployment", async || {
        world.get::<Deployment>("one-deployment").await.filter(|found| found["metadata"]["uid"] != before)
    })
    .await;
    until_state(&world, "one", "Ready").await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_reaches_the_deployment() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    world.apply(&resource("one", "nginx:2")).await;
    until_image(&world, "one-deployment", "nginx:2").await;
    until_state(&world, "one", "Ready").await;
}

#[tokio::test(start_paused = true)]
async fn what_it_owned_goes_with_it() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    world.delete::<MyResource>("one").await;
    until_gone(&world, "one-deployment").await;
    // The pass after the deletion finds nothing and ends quietly.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.metric("controller_runtime_reconcile_errors_total"), 0.0);
    assert!(world.get::<Deployment>("one-deployment").await.is_none());
}

/// The Deployment that somebody else made under the same name is taken over: apply is forced.
#[tokio::test(start_paused = true)]
async fn a_deployment_of_that_name_is_taken_over() {
    let world = World::start(OPERATOR).await;
    let mut foreign = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one-deployment"},
        "spec": {"selector": {"matchLabels": {"myresource": "one"}}, "template": {
            "metadata": {"labels": {"myresource": "one"}},
            "spec": {"containers": [{"name": "main", "image": "theirs"}]},
        }},
    });
    world.apply(&foreign).await;
    world.apply(&resource("one", "nginx")).await;
    until_image(&world, "one-deployment", "nginx").await;
    until_state(&world, "one", "Ready").await;
    // One with another selector cannot be: the field is immutable. The error is tried again, with back-off.
    foreign["metadata"]["name"] = json!("two-deployment");
    foreign["spec"]["selector"]["matchLabels"] = json!({"a": "b"});
    foreign["spec"]["template"]["metadata"]["labels"] = json!({"a": "b"});
    world.apply(&foreign).await;
    world.apply(&resource("two", "nginx")).await;
    until("an error", async || {
        (world.metric("controller_runtime_reconcile_errors_total") > 1.0).then_some(())
    })
    .await;
    assert!(world.get::<MyResource>("two").await.unwrap()["status"].is_null());
    let theirs = world.get::<Deployment>("two-deployment").await.unwrap();
    assert_eq!(theirs["spec"]["selector"]["matchLabels"], json!({"a": "b"}));
}

#[tokio::test(start_paused = true)]
async fn two_deployments_with_its_label_are_an_error() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let second = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "second", "labels": {"myresource": "one"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    world.apply(&second).await;
    world.apply(&resource("one", "nginx:2")).await;
    let errors = || world.metric("controller_runtime_reconcile_errors_total");
    until("errors", async || (errors() > 2.0).then_some(())).await;
    world.delete::<Deployment>("second").await;
    // The obstacle is gone: the next try succeeds, and no further one follows.
    until_image(&world, "one-deployment", "nginx:2").await;
    until_state(&world, "one", "Ready").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let at_rest = errors();
    tokio::time::sleep(Duration::from_secs(2000)).await;
    assert_eq!(errors(), at_rest);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_only_when_it_changes() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    // Building, Ready, and one apply of the Deployment.
    steady::a_pass_that_finds_nothing_writes_nothing::<MyResource>(&world, "one", 3).await;
}

#[tokio::test(start_paused = true)]
async fn wrong_input_is_refused_with_its_field() {
    let world = World::start(OPERATOR).await;
    for (spec, wanted) in [
        (json!({"image": "nginx", "memory": "lots"}), "spec.memory: Invalid value: \"lots\""),
        (
            json!({"image": "", "memory": "1Gi"}),
            "spec.image: Invalid value: \"\": spec.image in body should be at least 1 chars long",
        ),
        (json!({"memory": "1Gi"}), "spec.image: Required value"),
        (json!({"image": "nginx"}), "spec.memory: Required value"),
        (json!({"image": "nginx", "memory": true}), "spec.memory"),
    ] {
        let mut wrong = resource("bad", "nginx");
        wrong["spec"] = spec;
        let error = world.try_apply(&wrong).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}
