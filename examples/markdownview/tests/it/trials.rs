//! The trials that every operator must stand.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::ListParams;
use markdownview_operator::{MarkdownView, State};
use operator_testing::rights::RightsTrial;
use operator_testing::{World, crash, election, steady, until};
use serde_json::json;
use setpoint::manifests::Right;

use super::{OPERATOR, files, until_gone, until_state, view};

/// Everything that the operator ever does.
async fn life(world: &mut World) {
    world.apply(&view("sample", 1)).await;
    until_state(world, "sample", "Healthy").await;
    world.change::<MarkdownView>("sample", json!({"spec": {"markdowns": {"page1.md": "# New"}}})).await;
    until("the new text", async || (files(world, "sample").await?["page1.md"] == "# New").then_some(()))
        .await;
    // Unavailable and available again: the same event a second time.
    world.delete::<Deployment>("viewer-sample").await;
    until("an event that came again", async || {
        world.events("Available").await.into_iter().find(|event| event.series.is_some())
    })
    .await;
    // Long enough for the lease to be renewed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete::<MarkdownView>("sample").await;
    until_gone(world, "sample").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn it_has_the_rights_that_it_needs_and_no_other() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/rights.yaml");
    let finalizers = Right::new("view.zoetrope.github.io", "markdownviews/finalizers", "update");
    let reason = "only a server with OwnerReferencesPermissionEnforcement does; `cargo xtask e2e operators` runs on one.";
    RightsTrial::of(OPERATOR, file).untested(finalizers, reason).check(life).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_is_made_good() {
    let settle = async |world: &World| {
        until_state(world, "sample", "Healthy").await;
        assert_eq!(files(world, "sample").await.unwrap(), view("sample", 1)["spec"]["markdowns"]);
        let of = ListParams::default().labels("app.kubernetes.io/instance=sample");
        assert_eq!(world.api::<Deployment>().list(&of).await.unwrap().items.len(), 1);
        assert_eq!(world.api::<Service>().list(&of).await.unwrap().items.len(), 1);
    };
    let begin = async |world: &World| drop(world.apply(&view("sample", 1)).await);
    let crashes = crash::at_every_write(OPERATOR, begin, settle).await;
    // Three children and two states, each before and after.
    assert!(crashes >= 10, "{crashes}");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_one_acts_and_the_other_takes_over() {
    election::of_two_replicas_one_acts(OPERATOR, async |world, number| {
        let name = format!("view-{number}");
        world.apply(&view(&name, 1)).await;
        until_state(world, &name, "Healthy").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_views_at_rest_cost_no_request() {
    let make = |number| view(&format!("view-{number}"), 1);
    steady::no_request_while_nothing_changes(OPERATOR, 1000, make, async |world| {
        let all = world.api::<MarkdownView>().list(&ListParams::default()).await.unwrap();
        let healthy =
            |view: &MarkdownView| view.status.as_ref().and_then(|s| s.state) == Some(State::Healthy);
        all.items.iter().filter(|view| healthy(view)).count()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_causes_no_pass() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let passes = world.metric("controller_runtime_reconcile_total");
    let version =
        async || world.get::<MarkdownView>("sample").await.unwrap()["metadata"]["resourceVersion"].clone();
    let (before, sent) = (version().await, world.requests.sent().len());
    world.apply(&view("sample", 1)).await;
    // The same for a child, by whoever applies what is there already.
    let data = world.get::<ConfigMap>("markdowns-sample").await.unwrap()["data"].clone();
    world.change::<ConfigMap>("markdowns-sample", json!({"data": data})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(version().await, before, "a watch event");
    assert_eq!(world.metric("controller_runtime_reconcile_total"), passes, "a pass");
    assert_eq!(world.requests.sent().len(), sent, "a request");
}

#[test]
fn the_manifests_run_the_program_of_this_package() {
    let program = Path::new(env!("CARGO_BIN_EXE_markdownview-operator")).file_name().unwrap();
    assert_eq!(OPERATOR.command(), json!([program.to_str().unwrap()]));
}
