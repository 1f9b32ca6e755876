//! The operator on a cluster in this process. Time is paused: waiting costs nothing.
#![allow(clippy::unwrap_used)]

mod life;
mod logs;
mod trials;
mod webhooks;
mod wishes;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use markdownview_operator::MarkdownView;
use operator_testing::{TestedOperator, World, until};
use serde_json::{Value, json};

/// The operator as the trials see it.
const OPERATOR: TestedOperator = TestedOperator {
    name: markdownview_operator::NAME,
    register: markdownview_operator::register,
    manifests: markdownview_operator::manifests,
};

fn view(name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "view.zoetrope.github.io/v1", "kind": "MarkdownView", "metadata": {"name": name},
        "spec": {
            "markdowns": {"SUMMARY.md": "# Summary", "page1.md": "# Page 1"},
            "replicas": replicas, "viewerImage": "viewer:1",
        },
    })
}

async fn until_state(world: &World, name: &str, state: &str) {
    until(&format!("{name} {state}"), async || {
        let view = world.get::<MarkdownView>(name).await?;
        (view["status"]["state"] == state).then_some(())
    })
    .await;
}

/// The view's files in the ConfigMap.
async fn files(world: &World, name: &str) -> Option<Value> {
    Some(world.get::<ConfigMap>(&format!("markdowns-{name}")).await?["data"].clone())
}

async fn until_gone(world: &World, name: &str) {
    let (viewer, config) = (format!("viewer-{name}"), format!("markdowns-{name}"));
    until(&format!("nothing of {name}"), async || {
        let left = world.get::<ConfigMap>(&config).await.is_some()
            || world.get::<Deployment>(&viewer).await.is_some()
            || world.get::<Service>(&viewer).await.is_some();
        (!left).then_some(())
    })
    .await;
}
