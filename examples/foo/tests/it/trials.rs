//! The trials that every operator must stand.

use std::path::Path;

use foo_controller::Foo;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use operator_testing::rights::RightsTrial;
use operator_testing::{World, crash, election, steady, until};
use serde_json::json;
use setpoint::manifests::Right;

use super::{OPERATOR, foo, foreign, until_available, until_gone};

/// Everything that the controller ever does.
async fn life(world: &mut World) {
    world.apply(&foreign("taken")).await;
    world.apply(&foo("blocked", "taken", 1)).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(world, "one", 1).await;
    world.apply(&foo("one", "one", 2)).await;
    until_available(world, "one", 2).await;
    until("an event that came again", async || {
        world.events("ErrResourceExists").await.into_iter().find(|event| event.series.is_some())
    })
    .await;
    world.delete::<Foo>("one").await;
    until_gone(world, "one").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_has_the_rights_that_it_needs_and_no_other() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/rights.yaml");
    let finalizers = Right::new("samplecontroller.k8s.io", "foos/finalizers", "update");
    let reason = "only a server with OwnerReferencesPermissionEnforcement does; `cargo xtask e2e operators` runs on one.";
    RightsTrial::of(OPERATOR, file).untested(finalizers, reason).check(life).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_is_made_good() {
    let settle = async |world: &World| {
        until_available(world, "one", 2).await;
        let deployments = world.api::<Deployment>().list(&ListParams::default()).await.unwrap();
        assert_eq!(deployments.items.len(), 1);
        assert_eq!(deployments.items[0].spec.replicas, Some(2));
    };
    let crashes =
        crash::at_every_write(OPERATOR, async |world| drop(world.apply(&foo("one", "one", 2)).await), settle)
            .await;
    // Create, at least one status and its event, each before and after.
    assert!(crashes >= 6, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_acts_and_the_other_takes_over() {
    election::of_two_replicas_one_acts(OPERATOR, async |world, number| {
        let name = format!("foo-{number}");
        world.apply(&foo(&name, &name, 1)).await;
        until_available(world, &name, 1).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_foos_at_rest_cost_no_request() {
    let make = |number| foo(&format!("foo-{number}"), &format!("foo-{number}"), 1);
    steady::no_request_while_nothing_changes(OPERATOR, 1000, make, async |world| {
        let foos = world.api::<Foo>().list(&ListParams::default()).await.unwrap();
        let available = |foo: &Foo| foo.status.as_ref().is_some_and(|s| s.available_replicas == Some(1));
        foos.items.iter().filter(|foo| available(foo)).count()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_causes_no_pass() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let adds = world.metric("workqueue_adds_total");
    let version = async || world.get::<Foo>("one").await.unwrap()["metadata"]["resourceVersion"].clone();
    let (before, sent) = (version().await, world.requests.sent().len());
    world.apply(&foo("one", "one", 1)).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(version().await, before, "a watch event");
    assert_eq!(world.metric("workqueue_adds_total"), adds, "a pass");
    assert_eq!(world.requests.sent().len(), sent, "a request");
}

#[test]
fn the_manifests_run_the_program_of_this_package() {
    let program = Path::new(env!("CARGO_BIN_EXE_foo-controller")).file_name().unwrap();
    assert_eq!(OPERATOR.command(), json!([program.to_str().unwrap()]));
}
