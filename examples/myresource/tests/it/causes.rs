//! Why an object is as it is: a chain of writes from controller to controller, back to a person's change.

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use myresource_operator::MyResource;
use operator_testing::World;
use serde_json::json;
use setpoint_cluster::{Change, ChangeKind};

use super::{OPERATOR, resource, until_image, until_state};

/// The end of the object's key, and the program that wrote it.
fn short(change: &Change) -> (&str, Option<&str>) {
    let key = change.key.rsplit('/').nth(2).unwrap_or_default();
    (key, change.origin.as_ref().and_then(|origin| origin.reconcile_id.as_deref()).map(|_| "a reconcile"))
}

#[tokio::test(start_paused = true)]
async fn a_child_is_as_it_is_because_of_a_persons_change() {
    let world = World::start(OPERATOR).await;
    let made = world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let deployments: Api<Deployment> = world.api();
    let child = deployments.get("one-deployment").await.unwrap();
    let created = world.cluster.history(&child).remove(0);
    let origin = created.origin.clone().unwrap();
    assert_eq!((created.kind, origin.program.as_str()), (ChangeKind::Created, myresource_operator::NAME));
    let person: u64 = made.metadata.resource_version.as_deref().unwrap().parse().unwrap();
    assert_eq!(origin.causes, [person]);
    let told = created.to_string();
    assert!(told.contains(" with myresource-operator in reconcile "), "{told}");
    assert!(told.ends_with(&format!(" because of {person})")), "{told}");

    // The state was written because the Deployment's status was, and that goes through the built-in controllers.
    let chain = world.cluster.chain(&world.api::<MyResource>().get("one").await.unwrap());
    let places: Vec<_> = chain.iter().map(short).collect();
    for resource in ["myresources", "deployments", "replicasets", "pods"] {
        assert!(places.contains(&(resource, Some("a reconcile"))), "{resource}: {places:?}");
    }
    let last: Vec<_> = chain.iter().filter(|change| change.revision == person).collect();
    assert_eq!(last.len(), 1, "it goes back to the person's apply: {places:?}");
    assert_eq!(last[0].origin.as_ref().unwrap().reconcile_id, None);

    // Nothing of it is in the objects.
    let text = json!([child, world.get::<MyResource>("one").await]).to_string();
    assert!(!text.contains("econcile"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn drift_is_mended_because_of_whoever_caused_it() {
    let world = World::start(OPERATOR).await;
    world.apply(&resource("one", "nginx")).await;
    until_state(&world, "one", "Ready").await;
    let drift = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil"}]}}}});
    world.change::<Deployment>("one-deployment", drift).await;
    until_image(&world, "one-deployment", "nginx").await;
    let child = world.api::<Deployment>().get("one-deployment").await.unwrap();
    let history = world.cluster.history(&child);
    let by_nobody = history.iter().find(|change| change.manager.as_deref() == Some("somebody")).unwrap();
    let mended = history.iter().find(|change| {
        change.revision > by_nobody.revision
            && change.origin.as_ref().is_some_and(|origin| origin.program == myresource_operator::NAME)
    });
    assert!(mended.unwrap().origin.as_ref().unwrap().causes.contains(&by_nobody.revision), "{mended:?}");
}
