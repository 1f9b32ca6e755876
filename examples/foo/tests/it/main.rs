//! The controller on a cluster in this process. Time is paused: waiting costs nothing.
#![allow(clippy::unwrap_used)]

mod life;
mod trials;

use foo_controller::Foo;
use k8s_openapi::api::apps::v1::Deployment;
use operator_testing::{TestedOperator, World, until};
use serde_json::{Value, json};

/// The operator as the trials see it.
const OPERATOR: TestedOperator = TestedOperator {
    name: foo_controller::NAME,
    register: foo_controller::register,
    manifests: foo_controller::manifests,
};

fn foo(name: &str, deployment: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": name},
        "spec": {"deploymentName": deployment, "replicas": replicas},
    })
}

/// A Deployment that no Foo made.
fn foreign(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

async fn until_available(world: &World, name: &str, replicas: i32) {
    until(&format!("{name} with {replicas} available"), async || {
        let foo = world.get::<Foo>(name).await?;
        (foo["status"]["availableReplicas"] == replicas).then_some(())
    })
    .await;
}

async fn until_gone(world: &World, deployment: &str) {
    until(&format!("no {deployment}"), async || {
        world.get::<Deployment>(deployment).await.is_none().then_some(())
    })
    .await;
}
