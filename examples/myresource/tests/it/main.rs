//! The operator on a cluster in this process. Time is paused: waiting costs nothing.
#![allow(clippy::unwrap_used)]

mod causes;
mod harness;
mod life;
mod logs;
mod trials;
mod versions;

use k8s_openapi::api::apps::v1::Deployment;
use myresource_operator::MyResource;
use operator_testing::{TestedOperator, World, until};
use serde_json::{Value, json};

/// The operator as the trials see it.
const OPERATOR: TestedOperator = TestedOperator {
    name: myresource_operator::NAME,
    register: myresource_operator::register,
    manifests: myresource_operator::manifests,
};

fn resource(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "mygroup.example.com/v1alpha1", "kind": "MyResource", "metadata": {"name": name},
        "spec": {"image": image, "memory": "512Mi"},
    })
}

async fn until_state(world: &World, name: &str, state: &str) {
    until(&format!("{name} {state}"), async || {
        let resource = world.get::<MyResource>(name).await?;
        (resource["status"]["state"] == state).then_some(())
    })
    .await;
}

async fn until_image(world: &World, deployment: &str, image: &str) {
    until(&format!("{deployment} of {image}"), async || {
        let found = world.get::<Deployment>(deployment).await?;
        (found["spec"]["template"]["spec"]["containers"][0]["image"] == image).then_some(())
    })
    .await;
}

async fn until_gone(world: &World, deployment: &str) {
    until(&format!("no {deployment}"), async || {
        world.get::<Deployment>(deployment).await.is_none().then_some(())
    })
    .await;
}
