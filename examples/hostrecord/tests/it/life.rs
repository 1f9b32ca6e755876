//! One test for each declaration of the controller: finalizer, watch, predicates, channel, timer.

use std::time::Duration;

use hostrecord_operator::{FINALIZER, HostRecord, LOOK_EVERY};
use k8s_openapi::api::core::v1::Service;
use operator_testing::World;
use serde_json::json;
use setpoint::Key;

use super::{OPERATOR, file, folder, record, service, until_file, until_gone, until_state};

const PASSES: &str = "controller_runtime_reconcile_total";
/// Longer than any reconcile that a change leads to.
const SETTLED: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn the_finalizer_keeps_a_deleted_record_until_its_file_is_gone() {
    let mut world = World::start(OPERATOR).await;
    world.apply(&service("shop", "10.96.0.40")).await;
    world.apply(&record("one", "shop")).await;
    until_file("one", Some("10.96.0.40 one.example.com\n")).await;
    let found = world.get::<HostRecord>("one").await.unwrap();
    assert_eq!(found["metadata"]["finalizers"], json!([FINALIZER]));
    // Deleted while no operator runs: the record waits for the next one.
    world.stop().await;
    world.delete::<HostRecord>("one").await;
    tokio::time::sleep(SETTLED).await;
    assert!(world.get::<HostRecord>("one").await.is_some() && file("one").is_some());
    world.run(world.cluster.client(), None);
    until_gone(&world, "one").await;
    assert_eq!(file("one"), None);
}

#[tokio::test(start_paused = true)]
async fn a_watched_service_queues_the_records_that_name_it() {
    let world = World::start(OPERATOR).await;
    world.apply(&record("one", "shop")).await;
    world.apply(&record("two", "other")).await;
    until_state(&world, "one", "Waiting").await;
    until_state(&world, "two", "Waiting").await;
    world.apply(&service("shop", "10.96.0.40")).await;
    until_file("one", Some("10.96.0.40 one.example.com\n")).await;
    until_state(&world, "one", "Published").await;
    world.delete::<Service>("shop").await;
    until_file("one", None).await;
    until_state(&world, "one", "Waiting").await;
    world.apply(&service("shop", "10.96.0.41")).await;
    until_file("one", Some("10.96.0.41 one.example.com\n")).await;
    assert_eq!(file("two"), None);
}

#[tokio::test(start_paused = true)]
async fn the_predicates_let_through_what_matters_and_nothing_else() {
    let world = World::start(OPERATOR).await;
    world.apply(&service("shop", "10.96.0.40")).await;
    world.apply(&record("one", "shop")).await;
    until_state(&world, "one", "Published").await;
    tokio::time::sleep(SETTLED).await;
    let before = world.metric(PASSES);
    // Neither a label of the record nor one of the Service changes what the file must be.
    world.change::<HostRecord>("one", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.change::<Service>("shop", json!({"metadata": {"labels": {"a": "b"}}})).await;
    tokio::time::sleep(SETTLED).await;
    assert_eq!(world.metric(PASSES), before);
    world.change::<HostRecord>("one", json!({"spec": {"hostname": "new.example.com"}})).await;
    until_file("one", Some("10.96.0.40 new.example.com\n")).await;
    // The Service is one that leads outside now, without an address of the cluster.
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": null, "clusterIPs": null}});
    world.change::<Service>("shop", external).await;
    until_state(&world, "one", "Waiting").await;
    assert_eq!(file("one"), None);
}

#[tokio::test(start_paused = true)]
async fn the_channel_queues_a_record_whose_file_was_changed_by_hand() {
    let world = World::start(OPERATOR).await;
    world.apply(&service("shop", "10.96.0.40")).await;
    world.apply(&record("one", "shop")).await;
    until_state(&world, "one", "Published").await;
    tokio::time::sleep(LOOK_EVERY).await;
    let (key, sent) = (Key::new(Some("default"), "one"), world.requests.sent().len());
    for by_hand in [Some("10.96.0.99 one.example.com\n"), None] {
        folder().set(&key, by_hand).unwrap();
        until_file("one", Some("10.96.0.40 one.example.com\n")).await;
    }
    assert_eq!(world.requests.sent().len(), sent, "the file is no business of the server");
}

#[tokio::test(start_paused = true)]
async fn the_timer_withdraws_a_name_when_its_time_is_over() {
    let world = World::start(OPERATOR).await;
    world.apply(&service("shop", "10.96.0.40")).await;
    let mut short = record("one", "shop");
    let expires = world.cluster.clock().now() + Duration::from_secs(60);
    short["spec"]["expires"] = json!(expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    world.apply(&short).await;
    until_state(&world, "one", "Published").await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(file("one").is_some());
    let passes = world.metric(PASSES);
    until_state(&world, "one", "Expired").await;
    assert_eq!(file("one"), None);
    assert_eq!(world.metric(PASSES), passes + 1.0, "the timer called once");
    // A later end brings it back.
    world.change::<HostRecord>("one", json!({"spec": {"expires": null}})).await;
    until_file("one", Some("10.96.0.40 one.example.com\n")).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_would_write_a_second_line_is_refused() {
    let world = World::idle(OPERATOR).await;
    let mut wrong = record("one", "shop");
    wrong["spec"]["hostname"] = json!("one\n10.96.0.1 bank.example.com");
    let error = world.try_apply(&wrong).await.unwrap_err().to_string();
    assert!(error.contains("spec.hostname") && error.contains("should match"), "{error}");
}
