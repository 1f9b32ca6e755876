//! The lines that each step logs.

use k8s_openapi::api::apps::v1::Deployment;
use myresource_operator::MyResource;
use operator_testing::log_lines::{lines, listen};
use operator_testing::{World, until};
use serde_json::json;

use super::{OPERATOR, resource, until_gone, until_state};

#[tokio::test(start_paused = true)]
async fn each_step_is_a_line_of_the_book() {
    listen("myresource_operator");
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let first = lines("default/one");
    let wanted = [
        "getting myresource instance",
        "got deployment status ready_replicas=0",
        "updating status state=Building",
    ];
    assert_eq!(first[..3], wanted);
    let wanted = ["got deployment status ready_replicas=1", "updating status state=Ready"];
    assert!(first.windows(2).any(|two| two == wanted), "{first:#?}");
    let mut second = serde_json::to_value(world.get::<Deployment>("one-deployment").await.unwrap()).unwrap();
    second["metadata"] = json!({"name": "second", "labels": {"myresource": "one"}});
    second
        .as_object_mut()
        .unwrap()
        .extend([("apiVersion".to_owned(), json!("apps/v1")), ("kind".to_owned(), json!("Deployment"))]);
    second.as_object_mut().unwrap().remove("status");
    world.apply(&second).await;
    world.change::<MyResource>("one", json!({"metadata": {"labels": {"a": "b"}}})).await;
    let wanted = "too many deployments found count=2";
    until(wanted, async || lines("default/one").iter().any(|line| line == wanted).then_some(())).await;
    world.delete::<MyResource>("one").await;
    until_gone(&world, "one").await;
    let wanted = "resource is not found";
    until(wanted, async || lines("default/one").iter().any(|line| line == wanted).then_some(())).await;
}
