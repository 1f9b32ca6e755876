//! The trials that every operator must stand.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use myresource_operator::{MyResource, State};
use operator_testing::rights::RightsTrial;
use operator_testing::{World, crash, election, steady};
use serde_json::json;
use setpoint::manifests::Right;

use super::{OPERATOR, resource, until_gone, until_image, until_state};

/// Everything that the operator ever does.
async fn life(world: &mut World) {
    world.apply(&resource("one", "nginx")).await;
    until_state(world, "one", "Ready").await;
    world.apply(&resource("one", "nginx:2")).await;
    until_image(world, "one-deployment", "nginx:2").await;
    // Long enough for the lease to be renewed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete::<MyResource>("one").await;
    until_gone(world, "one-deployment").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_has_the_rights_that_it_needs_and_no_other() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/rights.yaml");
    let finalizers = Right::new("mygroup.example.com", "myresources/finalizers", "update");
    let reason = "only a server with OwnerReferencesPermissionEnforcement does; `cargo xtask e2e operators` runs on one.";
    RightsTrial::of(OPERATOR, file).untested(finalizers, reason).check(life).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_is_made_good() {
    let settle = async |world: &World| {
        until_state(world, "one", "Ready").await;
        let deployments = world.api::<Deployment>().list(&ListParams::default()).await.unwrap();
        assert_eq!(deployments.items.len(), 1);
    };
    let begin = async |world: &World| drop(world.apply(&resource("one", "nginx")).await);
    let crashes = crash::at_every_write(OPERATOR, begin, settle).await;
    // The Deployment and two states, each before and after.
    assert!(crashes >= 6, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_acts_and_the_other_takes_over() {
    election::of_two_replicas_one_acts(OPERATOR, async |world, number| {
        let name = format!("resource-{number}");
        world.apply(&resource(&name, "nginx")).await;
        until_state(world, &name, "Ready").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_resources_at_rest_cost_no_request() {
    let make = |number| resource(&format!("resource-{number}"), "nginx");
    steady::no_request_while_nothing_changes(OPERATOR, 1000, make, async |world| {
        let all = world.api::<MyResource>().list(&ListParams::default()).await.unwrap();
        let ready = |resource: &MyResource| resource.status.as_ref().is_some_and(|s| s.state == State::Ready);
        all.items.iter().filter(|resource| ready(resource)).count()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_causes_no_pass() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let passes = world.metric("controller_runtime_reconcile_total");
    let version =
        async || world.get::<MyResource>("one").await.unwrap()["metadata"]["resourceVersion"].clone();
    let (before, sent) = (version().await, world.requests.sent().len());
    world.apply(&resource("one", "nginx")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(version().await, before, "a watch event");
    assert_eq!(world.metric("controller_runtime_reconcile_total"), passes, "a pass");
    assert_eq!(world.requests.sent().len(), sent, "a request");
}

#[test]
fn the_manifests_run_the_program_of_this_package() {
    let program = Path::new(env!("CARGO_BIN_EXE_myresource-operator")).file_name().unwrap();
    assert_eq!(OPERATOR.command(), json!([program.to_str().unwrap()]));
}
