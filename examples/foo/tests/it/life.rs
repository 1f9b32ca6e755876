//! The life of a Foo.

use std::time::Duration;

use foo_controller::Foo;
use k8s_openapi::api::apps::v1::Deployment;
use operator_testing::{World, until};
use serde_json::json;

use super::{OPERATOR, foo, foreign, until_available, until_gone};

#[tokio::test(start_paused = true)]
async fn a_foo_gets_its_deployment_status_and_event() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one-deployment", 2)).await;
    until_available(&world, "one", 2).await;
    let deployment = world.get::<Deployment>("one-deployment").await.unwrap();
    let owner = &deployment["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Foo"), &json!("one")));
    assert_eq!((&owner["controller"], &owner["blockOwnerDeletion"]), (&json!(true), &json!(true)));
    let labels = json!({"app": "nginx", "controller": "one"});
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], labels);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("nginx"), &json!("nginx:latest")));
    let events = world.events("Synced").await;
    assert_eq!(events[0].note.as_deref(), Some("Foo synced successfully"));
    assert_eq!(events[0].type_.as_deref(), Some("Normal"));
}

#[tokio::test(start_paused = true)]
async fn drifted_replicas_and_a_deleted_deployment_are_corrected() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    world.change::<Deployment>("one", json!({"spec": {"replicas": 4}})).await;
    until("one replica again", async || {
        let deployment = world.get::<Deployment>("one").await?;
        (deployment["spec"]["replicas"] == 1).then_some(())
    })
    .await;
    let uid = world.get::<Deployment>("one").await.unwrap()["metadata"]["uid"].clone();
    world.delete::<Deployment>("one").await;
    until("a new Deployment", async || {
        world.get::<Deployment>("one").await.filter(|found| found["metadata"]["uid"] != uid)
    })
    .await;
    until_available(&world, "one", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_missed_is_told_by_a_tombstone() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    let states = || {
        let asked = world.requests.sent();
        asked
            .iter()
            .filter(|r| r.path.ends_with("/deployments") && r.query.contains("sendInitialEvents"))
            .count()
    };
    assert_eq!(states(), 1);
    world.requests.cut_watches(true);
    let uid = world.get::<Deployment>("one").await.unwrap()["metadata"]["uid"].clone();
    world.delete::<Deployment>("one").await;
    until_gone(&world, "one").await;
    // The server forgets the deletion too: only a comparison of two lists shows it.
    world.cluster.store().compact(world.cluster.store().revision());
    world.requests.cut_watches(false);
    until("a new Deployment", async || {
        world.get::<Deployment>("one").await.filter(|found| found["metadata"]["uid"] != uid)
    })
    .await;
    assert!(states() > 1, "the deletion was watched after all");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_reaches_the_deployment() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    world.apply(&foo("one", "one", 3)).await;
    until_available(&world, "one", 3).await;
    assert_eq!(world.get::<Deployment>("one").await.unwrap()["spec"]["replicas"], 3);
    // Another name: a second Deployment, as in the original; the first stays until the Foo goes.
    world.apply(&foo("one", "other", 3)).await;
    until("the other Deployment", async || world.get::<Deployment>("other").await).await;
    assert!(world.get::<Deployment>("one").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_it_owned_goes_with_it() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    world.delete::<Foo>("one").await;
    until_gone(&world, "one").await;
    assert!(world.get::<Foo>("one").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_of_somebody_else_is_left_alone_and_said_with_back_off() {
    let world = World::start(OPERATOR).await;
    world.apply(&foreign("taken")).await;
    world.apply(&foo("one", "taken", 1)).await;
    let event = until("a warning", async || world.events("ErrResourceExists").await.into_iter().next()).await;
    assert_eq!(event.note.as_deref(), Some("Resource \"taken\" already exists and is not managed by Foo"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let retries = |world: &World| world.metric("workqueue_retries_total");
    let (soon, _) = (retries(&world), tokio::time::sleep(Duration::from_secs(1)).await);
    let (later, _) = (retries(&world), tokio::time::sleep(Duration::from_secs(1)).await);
    let last = retries(&world);
    assert!(last > soon, "no retry");
    assert!(last - later <= later - soon, "no back-off: {soon} {later} {last}");
    let taken = world.get::<Deployment>("taken").await.unwrap();
    assert!(taken["metadata"]["ownerReferences"].is_null());
    assert!(world.get::<Foo>("one").await.unwrap()["status"].is_null());
    assert!(world.events("Synced").await.is_empty());
    // The way is free: the next try succeeds.
    world.delete::<Deployment>("taken").await;
    until_available(&world, "one", 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_name_is_not_retried_and_others_go_on() {
    let world = World::start(OPERATOR).await;
    world.apply(&foo("empty", "", 1)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.metric("workqueue_adds_total"), 1.0);
    assert_eq!(world.metric("workqueue_retries_total"), 0.0);
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    assert!(world.get::<Foo>("empty").await.unwrap()["status"].is_null());
    // Only a change of the Foo helps.
    world.apply(&foo("empty", "two", 1)).await;
    until_available(&world, "empty", 1).await;
}

#[tokio::test(start_paused = true)]
async fn synced_is_recorded_only_when_a_pass_changed_something() {
    // An event that comes again is counted, and told when its series has ended: six minutes after the last.
    const SERIES_TOLD: Duration = Duration::from_secs(7 * 60);
    let world = World::start(OPERATOR).await;
    world.apply(&foo("one", "one", 1)).await;
    until_available(&world, "one", 1).await;
    let count = async || {
        tokio::time::sleep(SERIES_TOLD).await;
        let events = world.events("Synced").await;
        events.iter().map(|event| event.series.as_ref().map_or(1, |series| series.count)).sum::<i32>()
    };
    let (before, adds) = (count().await, world.metric("workqueue_adds_total"));
    // A pass that finds everything as it should be.
    world.change::<Foo>("one", json!({"metadata": {"labels": {"a": "b"}}})).await;
    until("the pass", async || (world.metric("workqueue_adds_total") > adds).then_some(())).await;
    assert_eq!(count().await, before);
    world.apply(&foo("one", "one", 2)).await;
    until_available(&world, "one", 2).await;
    assert!(count().await > before);
}

#[test]
fn the_manifests_start_the_program_that_is_built() {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_foo-controller")).file_stem().unwrap();
    let container = &OPERATOR.manifest("Deployment")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!([program.to_str().unwrap()]));
}

#[tokio::test(start_paused = true)]
async fn wrong_input_is_refused_with_its_field() {
    let world = World::start(OPERATOR).await;
    for (replicas, wanted) in [
        (
            json!(11),
            "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10",
        ),
        (
            json!(0),
            "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1",
        ),
        (json!("two"), "spec.replicas"),
    ] {
        let mut wrong = foo("bad", "x", 1);
        wrong["spec"]["replicas"] = replicas;
        let error = world.try_apply(&wrong).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let definition = OPERATOR.manifest("CustomResourceDefinition");
    let approved = &definition["metadata"]["annotations"]["api-approved.kubernetes.io"];
    assert_eq!(approved, "unapproved, experimental-only");
}
