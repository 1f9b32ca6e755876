//! The webhooks, called by the API server as functions: no socket, no certificate.

use kube::Api;
use kube::api::PostParams;
use markdownview_operator::{MarkdownView, manifests_with_webhooks, webhooks};
use operator_testing::{TestedOperator, World};
use serde_json::{Value, json};
use setpoint::webhook::Review;
use setpoint_cluster::Cluster;

use super::{OPERATOR, view};

/// A cluster with the definition and the webhooks.
async fn world() -> World {
    let operator = TestedOperator { manifests: manifests_with_webhooks, ..OPERATOR };
    let world = World::idle(operator).await;
    let handlers = webhooks();
    world.cluster.webhooks().answer("markdown-view-system", "markdown-view-webhooks", move |request| {
        let handlers = handlers.clone();
        async move { handlers.call(request).await }
    });
    for object in webhooks().configurations() {
        world.apply(&object).await;
    }
    // The schema has the same rules; without them the webhook is seen at work.
    let mut definition = operator.manifest("CustomResourceDefinition");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let spec = definition.pointer_mut(spec).unwrap();
    spec["properties"]["replicas"] = json!({"type": "integer", "format": "int32", "default": 1});
    spec["properties"]["markdowns"] = json!({"type": "object", "additionalProperties": {"type": "string"}});
    world.apply(&definition).await;
    world
}

async fn create(cluster: &Cluster, view: Value) -> kube::Result<MarkdownView> {
    let views: Api<MarkdownView> = Api::default_namespaced(cluster.client());
    views.create(&PostParams::default(), &serde_json::from_value(view).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn an_empty_image_is_filled_in() {
    let world = world().await;
    let mut empty = view("sample", 1);
    empty["spec"]["viewerImage"] = json!("");
    let made = create(&world.cluster, empty).await.unwrap();
    assert_eq!(made.spec.viewer_image, "peaceiris/mdbook:latest");
    let made = create(&world.cluster, view("other", 1)).await.unwrap();
    assert_eq!(made.spec.viewer_image, "viewer:1");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_view_is_refused_in_the_words_of_the_original() {
    let world = world().await;
    let replicas =
        |number| format!("spec.replicas: Invalid value: {number}: replicas must be in the range of 1 to 5.");
    let summary = "spec.markdowns: Required value: markdowns must have SUMMARY.md.";
    for (change, told) in [
        (json!({"replicas": 0}), replicas(0)),
        (json!({"replicas": 6}), replicas(6)),
        (json!({"markdowns": {"page1.md": "x"}}), summary.to_owned()),
        (json!({"replicas": 0, "markdowns": {}}), format!("[{}, {summary}]", replicas(0))),
    ] {
        let mut wrong = view("sample", 1);
        wrong["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let kube::Error::Api(status) = create(&world.cluster, wrong).await.unwrap_err() else { panic!() };
        let message = format!(
            "admission webhook \"vmarkdownview.kb.io\" denied the request: MarkdownView.view.zoetrope.github.io \
             \"sample\" is invalid: {told}"
        );
        assert_eq!((status.code, status.message), (422, message));
    }
    create(&world.cluster, view("sample", 5)).await.unwrap();
}

#[test]
fn the_configurations_have_the_paths_and_names_of_the_original() {
    let all = manifests_with_webhooks("image");
    for (kind, name, path) in [
        (
            "MutatingWebhookConfiguration",
            "mmarkdownview.kb.io",
            "/mutate-view-zoetrope-github-io-v1-markdownview",
        ),
        (
            "ValidatingWebhookConfiguration",
            "vmarkdownview.kb.io",
            "/validate-view-zoetrope-github-io-v1-markdownview",
        ),
    ] {
        let object = all.iter().find(|object| object["kind"] == kind).unwrap();
        let webhook = &object["webhooks"][0];
        assert_eq!(
            (&webhook["name"], &webhook["clientConfig"]["service"]["path"]),
            (&json!(name), &json!(path))
        );
        assert_eq!(webhook["rules"][0]["operations"], json!(["CREATE", "UPDATE"]));
        assert_eq!((&webhook["failurePolicy"], &webhook["sideEffects"]), (&json!("Fail"), &json!("None")));
    }
    let service = all.iter().find(|object| object["kind"] == "Service").unwrap();
    let deployment = all.iter().find(|object| object["kind"] == "Deployment").unwrap();
    assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let named =
        container["ports"].as_array().unwrap().iter().find(|port| port["name"] == "webhooks").unwrap();
    assert_eq!(
        (&named["containerPort"], &service["spec"]["ports"][0]["targetPort"]),
        (&json!(9443), &json!("webhooks"))
    );
    assert!(container["args"].as_array().unwrap().contains(&json!("--webhook-bind-address=0.0.0.0:9443")));
}

#[tokio::test]
async fn a_file_that_no_page_leads_to_is_warned_of() {
    // A handler is a function, so a test can send it a review without any cluster.
    let review: Review<MarkdownView> = Review::create(serde_json::from_value(view("sample", 1)).unwrap());
    assert_eq!((review.key.name(), review.old.is_none()), ("sample", true));
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "name": "sample", "object": view("sample", 1),
        "kind": {"group": "view.zoetrope.github.io", "version": "v1", "kind": "MarkdownView"},
    }});
    let request = http::Request::post("/validate-view-zoetrope-github-io-v1-markdownview")
        .header("content-type", "application/json")
        .body(body.to_string().into())
        .unwrap();
    let answer: Value = serde_json::from_slice(webhooks().call(request).await.body()).unwrap();
    let warning = "page1.md is not in SUMMARY.md, so no page leads to it";
    assert_eq!(answer["response"], json!({"uid": "u", "allowed": true, "warnings": [warning]}));
}
