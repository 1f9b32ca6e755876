//! Two versions of one object, converted by the webhook.

use kube::Api;
use kube::api::{ListParams, PostParams};
use myresource_operator::v1beta1::{self, conversion, webhooks};
use myresource_operator::{MyResource, manifests_with_webhooks};
use operator_testing::{TestedOperator, World};
use serde_json::json;

use super::{OPERATOR, resource, until_state};

#[test]
fn no_version_loses_anything() {
    conversion().check_round_trips(&v1beta1::definition(), 1, 500).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_of_either_version_becomes_ready() {
    let operator = TestedOperator { manifests: manifests_with_webhooks, ..OPERATOR };
    let mut world = World::idle(operator).await;
    let handlers = webhooks();
    world.cluster.webhooks().answer("myresource-system", "myresource-webhooks", move |request| {
        let handlers = handlers.clone();
        async move { handlers.call(request).await }
    });
    world.run(world.cluster.client(), None);
    world.apply(&resource("old", "nginx")).await;
    let newer: Api<v1beta1::MyResource> = Api::default_namespaced(world.cluster.client());
    let object = json!({
        "apiVersion": "mygroup.example.com/v1beta1", "kind": "MyResource", "metadata": {"name": "new"},
        "spec": {"image": "nginx:2", "resources": {"memory": "1Gi"}},
    });
    newer.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    until_state(&world, "old", "Ready").await;
    until_state(&world, "new", "Ready").await;
    let old = world.get::<MyResource>("new").await.unwrap();
    assert_eq!(old["spec"], json!({"image": "nginx:2", "memory": "1Gi"}));
    let listed = newer.list(&ListParams::default()).await.unwrap();
    let memory: Vec<_> = listed.items.iter().map(|item| item.spec.resources.memory.0.as_str()).collect();
    assert_eq!(memory, ["1Gi", "512Mi"]);
    assert!(listed.items.iter().all(|item| item.status.is_some()));
}
