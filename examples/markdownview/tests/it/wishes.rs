//! The children field by field, and what the definition says, as the original has them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use operator_testing::World;
use serde_json::json;

use super::{OPERATOR, until_state, view};

#[tokio::test(start_paused = true)]
async fn the_viewer_is_as_the_original_makes_it() {
    let world = World::start(OPERATOR).await;
    world.apply(&view("sample", 2)).await;
    until_state(&world, "sample", "Healthy").await;
    let labels = json!({
        "app.kubernetes.io/name": "mdbook", "app.kubernetes.io/instance": "sample",
        "app.kubernetes.io/created-by": "markdown-view-controller",
    });
    let deployment = world.get::<Deployment>("viewer-sample").await.unwrap();
    assert_eq!(deployment["metadata"]["labels"], labels);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(deployment["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(deployment["spec"]["replicas"], 2);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["name"], "mdbook");
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["command"], json!(["mdbook"]));
    assert_eq!(container["args"], json!(["serve", "--hostname", "0.0.0.0"]));
    assert_eq!(container["volumeMounts"], json!([{"mountPath": "/book/src", "name": "markdowns"}]));
    assert_eq!(container["ports"], json!([{"containerPort": 3000, "name": "http", "protocol": "TCP"}]));
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"], json!({"path": "/", "port": "http", "scheme": "HTTP"}));
    }
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!(
        (&volume["name"], &volume["configMap"]["name"]),
        (&json!("markdowns"), &json!("markdowns-sample"))
    );
    let service = world.get::<Service>("viewer-sample").await.unwrap();
    assert_eq!((&service["metadata"]["labels"], &service["spec"]["selector"]), (&labels, &labels));
    assert_eq!(service["spec"]["type"], "ClusterIP");
    let applied = deployment["metadata"]["managedFields"].as_array().unwrap().iter();
    let ours = applied
        .filter(|entry| entry["manager"] == "markdown-view-controller" && entry["operation"] == "Apply");
    assert_eq!(ours.count(), 1);
}

#[test]
fn the_definition_prints_replicas_and_status() {
    let definition = OPERATOR.manifest("CustomResourceDefinition");
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<_> =
        columns.iter().map(|column| (column["name"].as_str(), column["jsonPath"].as_str())).collect();
    assert_eq!(
        columns,
        [(Some("Replicas"), Some(".spec.replicas")), (Some("Status"), Some(".status.state")),]
    );
}

#[test]
fn the_sample_has_two_files() {
    let text = include_str!("../../samples/markdownview.yaml");
    let sample: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let files: Vec<_> = sample["spec"]["markdowns"].as_object().unwrap().keys().collect();
    assert_eq!(files, ["SUMMARY.md", "page1.md"]);
}
