//! The life of a MarkdownView.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use markdownview_operator::MarkdownView;
use operator_testing::{World, steady, until};
use serde_json::{Value, json};

use super::{OPERATOR, files, until_gone, until_state, view};

#[tokio::test(start_paused = true)]
async fn a_view_gets_its_three_children_and_becomes_healthy() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    assert_eq!(files(&world, "sample").await.unwrap().as_object().unwrap().len(), 2);
    let deployment = world.get::<Deployment>("viewer-sample").await.unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "viewer:1");
    let service = world.get::<Service>("viewer-sample").await.unwrap();
    let port = &service["spec"]["ports"][0];
    assert_eq!((&port["port"], &port["targetPort"]), (&json!(80), &json!(3000)));
    let sample = world.get::<MarkdownView>("sample").await.unwrap();
    let conditions = sample["status"]["conditions"].as_array().unwrap();
    let conditions: Vec<_> =
        conditions.iter().map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect();
    assert_eq!(conditions, [("Available", "True"), ("Degraded", "False")]);
    let events =
        until("its event", async || Some(world.events("Available").await).filter(|e| !e.is_empty())).await;
    assert_eq!(events[0].note.as_deref(), Some("MarkdownView(default:sample) available"));
    for child in [&deployment, &service, &world.get::<ConfigMap>("markdowns-sample").await.unwrap()] {
        assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "sample");
        assert_eq!(child["metadata"]["ownerReferences"][0]["controller"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_leaves_the_view_leaves_the_config_map() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    let change = json!({"spec": {"markdowns": {"page1.md": null, "page2.md": "# Page 2"}}});
    world.change::<MarkdownView>("sample", change).await;
    until("the new files", async || {
        let wanted = json!({"SUMMARY.md": "# Summary", "page2.md": "# Page 2"});
        (files(&world, "sample").await? == wanted).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_reaches_the_children() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    world.change::<MarkdownView>("sample", json!({"spec": {"replicas": 3, "viewerImage": "viewer:2"}})).await;
    until("three of the new image", async || {
        let deployment = world.get::<Deployment>("viewer-sample").await?;
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        (deployment["status"]["availableReplicas"] == 3 && image == "viewer:2").then_some(())
    })
    .await;
    until_state(&world, "sample", "Healthy").await;
}

#[tokio::test(start_paused = true)]
async fn every_edited_or_deleted_child_comes_back() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    world.change::<ConfigMap>("markdowns-sample", json!({"data": {"page1.md": "x", "more.md": "y"}})).await;
    until("the files", async || {
        (files(&world, "sample").await? == view("sample", 1)["spec"]["markdowns"]).then_some(())
    })
    .await;
    world.change::<Deployment>("viewer-sample", json!({"spec": {"replicas": 0}})).await;
    until("one replica", async || {
        (world.get::<Deployment>("viewer-sample").await?["spec"]["replicas"] == 1).then_some(())
    })
    .await;
    let ports = json!({"spec": {"ports": [{"port": 80, "targetPort": 9999, "protocol": "TCP"}]}});
    world.change::<Service>("viewer-sample", ports).await;
    until("the port", async || {
        (world.get::<Service>("viewer-sample").await?["spec"]["ports"][0]["targetPort"] == 3000).then_some(())
    })
    .await;
    let uid = |object: Value| object["metadata"]["uid"].clone();
    let before = uid(world.get::<ConfigMap>("markdowns-sample").await.unwrap());
    world.delete::<ConfigMap>("markdowns-sample").await;
    until("a new ConfigMap", async || {
        (uid(world.get::<ConfigMap>("markdowns-sample").await?) != before).then_some(())
    })
    .await;
    let before = uid(world.get::<Service>("viewer-sample").await.unwrap());
    world.delete::<Service>("viewer-sample").await;
    until("a new Service", async || {
        (uid(world.get::<Service>("viewer-sample").await?) != before).then_some(())
    })
    .await;
    let before = uid(world.get::<Deployment>("viewer-sample").await.unwrap());
    world.delete::<Deployment>("viewer-sample").await;
    until("a new Deployment", async || {
        (uid(world.get::<Deployment>("viewer-sample").await?) != before).then_some(())
    })
    .await;
    until_state(&world, "sample", "Healthy").await;
}

#[tokio::test(start_paused = true)]
async fn deletion_takes_the_children_and_the_gauge_away() {
    let world = World::start(OPERATOR).await;
    for name in ["sample", "other"] {
        world.apply(&view(name, 1)).await;
        until_state(&world, name, "Healthy").await;
    }
    let series = |name: &str| world.metrics.encode().matches(&format!("name=\"{name}\",state=")).count();
    assert_eq!((series("sample"), series("other")), (3, 3), "{}", world.metrics.encode());
    let healthy = "markdownview_state{namespace=\"default\",name=\"sample\",state=\"Healthy\"} 1";
    assert!(world.metrics.encode().contains(healthy), "{}", world.metrics.encode());
    world.delete::<MarkdownView>("sample").await;
    until_gone(&world, "sample").await;
    until("no series", async || (series("sample") == 0).then_some(())).await;
    assert_eq!(series("other"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_being_deleted_is_left_alone() {
    let world = World::start(OPERATOR).await;
    let mut held = view("sample", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(&held).await;
    until_state(&world, "sample", "Healthy").await;
    world.delete::<MarkdownView>("sample").await;
    world.delete::<ConfigMap>("markdowns-sample").await;
    let passes = world.metric("controller_runtime_reconcile_total");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(world.metric("controller_runtime_reconcile_total") >= passes);
    assert!(world.get::<ConfigMap>("markdowns-sample").await.is_none(), "it was made again");
    world.change::<MarkdownView>("sample", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&world, "sample").await;
}

#[tokio::test(start_paused = true)]
async fn children_of_somebody_else_are_refused_and_said_in_the_status() {
    let world = World::start(OPERATOR).await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"theirs": "x"},
        "metadata": {"name": "markdowns-sample", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Namespace", "name": "default", "controller": true,
            "uid": world.namespace_uid("default").await,
        }]},
    });
    world.apply(&foreign).await;
    world.apply(&view("sample", 1)).await;
    until("errors", async || (world.metric("controller_runtime_reconcile_errors_total") > 1.0).then_some(()))
        .await;
    assert_eq!(files(&world, "sample").await.unwrap(), json!({"theirs": "x"}));
    until_state(&world, "sample", "NotReady").await;
    let sample = world.get::<MarkdownView>("sample").await.unwrap();
    assert_eq!(sample["status"]["conditions"][1]["status"], "True", "Degraded: {sample}");
    let events =
        until("a warning", async || Some(world.events("Degraded").await).filter(|e| !e.is_empty())).await;
    assert_eq!(events[0].note.as_deref(), Some("MarkdownView(default:sample) degraded"));
    world.delete::<ConfigMap>("markdowns-sample").await;
    until_state(&world, "sample", "Healthy").await;
}

#[tokio::test(start_paused = true)]
async fn the_status_is_written_only_when_it_changes() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 1)).await;
    until_state(&world, "sample", "Healthy").await;
    // Three children, two states, one event.
    steady::a_pass_that_finds_nothing_writes_nothing::<MarkdownView>(&world, "sample", 6).await;
}

#[tokio::test(start_paused = true)]
async fn wrong_input_is_refused_with_its_field() {
    let world = World::start(OPERATOR).await;
    for (spec, wanted) in [
        (
            json!({"markdowns": {"SUMMARY.md": "x"}, "replicas": 9}),
            "spec.replicas: Invalid value: 9: spec.replicas in body should be less than or equal to 5",
        ),
        (json!({"markdowns": {"page1.md": "x"}}), "markdowns must have SUMMARY.md."),
        (json!({"markdowns": {}}), "spec.markdowns in body should have at least 1 properties"),
        (json!({"replicas": 1}), "spec.markdowns: Required value"),
        (json!({"markdowns": {"SUMMARY.md": 1}}), "spec.markdowns.SUMMARY.md"),
    ] {
        let mut wrong = view("bad", 1);
        wrong["spec"] = spec;
        let error = world.try_apply(&wrong).await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let mut least = view("least", 1);
    least["spec"] = json!({"markdowns": {"SUMMARY.md": "x"}});
    let made = world.apply(&least).await;
    let defaults = (&made.data["spec"]["replicas"], &made.data["spec"]["viewerImage"]);
    assert_eq!(defaults, (&json!(1), &json!("peaceiris/mdbook:latest")));
}
