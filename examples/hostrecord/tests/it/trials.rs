//! The trials that every operator must stand.

use std::path::Path;
use std::time::Duration;

use hostrecord_operator::{HostRecord, State};
use kube::api::ListParams;
use operator_testing::rights::RightsTrial;
use operator_testing::{World, crash, election, steady};
use serde_json::json;

use super::{OPERATOR, file, record, service, until_file, until_gone, until_state};

const LINE: &str = "10.96.0.40 one.example.com\n";

/// Everything that the operator ever does.
async fn life(world: &mut World) {
    world.apply(&record("one", "shop")).await;
    until_state(world, "one", "Waiting").await;
    world.apply(&service("shop", "10.96.0.40")).await;
    until_file("one", Some(LINE)).await;
    until_state(world, "one", "Published").await;
    // Long enough for the lease to be renewed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete::<HostRecord>("one").await;
    until_gone(world, "one").await;
    assert_eq!(file("one"), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_has_the_rights_that_it_needs_and_no_other() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/rights.yaml");
    RightsTrial::of(OPERATOR, file).check(life).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_is_made_good() {
    let begin = async |world: &World| {
        world.apply(&service("shop", "10.96.0.40")).await;
        world.apply(&record("one", "shop")).await;
    };
    let settle = async |world: &World| {
        until_state(world, "one", "Published").await;
        until_file("one", Some(LINE)).await;
    };
    let crashes = crash::at_every_write(OPERATOR, begin, settle).await;
    // The finalizer and the state, each before and after.
    assert!(crashes >= 4, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_acts_and_the_other_takes_over() {
    election::of_two_replicas_one_acts(OPERATOR, async |world, number| {
        let name = format!("record-{number}");
        world.apply(&service("shop", "10.96.0.40")).await;
        world.apply(&record(&name, "shop")).await;
        until_state(world, &name, "Published").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_records_at_rest_cost_no_request() {
    let make = |number| record(&format!("record-{number}"), "kubernetes");
    steady::no_request_while_nothing_changes(OPERATOR, 1000, make, async |world| {
        let all = world.api::<HostRecord>().list(&ListParams::default()).await.unwrap();
        let published =
            |record: &HostRecord| record.status.as_ref().is_some_and(|s| s.state == State::Published);
        all.items.iter().filter(|record| published(record)).count()
    })
    .await;
}

#[test]
fn the_manifests_run_the_program_of_this_package() {
    let program = Path::new(env!("CARGO_BIN_EXE_hostrecord-operator")).file_name().unwrap();
    assert_eq!(OPERATOR.command(), json!([program.to_str().unwrap()]));
}
