//! Server-side apply, sent only when it would change something.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use serde_json::{Value, json};
use setpoint::{ManagerOptions, Patch};

use super::{Place, beside, until};

fn wanted(image: &str) -> Value {
    json!({"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "main", "image": image, "ports": [{"containerPort": 80, "protocol": "TCP"}],
             "env": [{"name": "A", "value": "1"}]}]}}}})
}

#[tokio::test]
async fn an_apply_is_skipped_until_somebody_takes_or_changes_a_field() {
    let place = Place::new().await;
    let manager = place.manager_with(ManagerOptions::with(|options| options.name = "tester".into()));
    manager.informer::<Deployment>();
    let client = manager.client().in_namespace(&place.namespace);
    let version = async || {
        let live = client.live().get::<Deployment>(place.key("web")).await.unwrap().unwrap();
        live.metadata.resource_version.unwrap()
    };
    let skipped = || {
        let metrics = manager.metrics().encode();
        let line = metrics.lines().find(|line| line.starts_with("setpoint_apply_skipped_total"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    };
    beside(&manager, async {
        client.apply_partial::<Deployment>(&wanted("example.org/web:1")).await.unwrap();
        let first = version().await;
        for _ in 0..3 {
            client.apply_partial::<Deployment>(&wanted("example.org/web:1")).await.unwrap();
        }
        assert_eq!((version().await, skipped()), (first, 3), "nothing was sent");
        client.apply_partial::<Deployment>(&wanted("example.org/web:2")).await.unwrap();
        assert_eq!(skipped(), 3, "another value is sent");

        // Another manager takes a field: the next apply is sent and takes the field back.
        let foreign = client.with_field_owner("foreign");
        let theirs = json!({"spec": {"replicas": 7}});
        foreign.patch::<Deployment>(place.key("web"), &Patch::Merge(theirs)).await.unwrap();
        client.apply_partial::<Deployment>(&wanted("example.org/web:2")).await.unwrap();
        assert_eq!(skipped(), 3);
        let live = client.live().get::<Deployment>(place.key("web")).await.unwrap().unwrap();
        assert_eq!(live.spec.replicas, Some(2));

        // A field of their own is no business of ours.
        let theirs = json!({"metadata": {"annotations": {"note": "theirs"}}});
        foreign.patch::<Deployment>(place.key("web"), &Patch::Merge(theirs)).await.unwrap();
        client.apply_partial::<Deployment>(&wanted("example.org/web:2")).await.unwrap();
        assert_eq!(skipped(), 4);

        let extracted = client.extract::<Deployment>(place.key("web")).await.unwrap().unwrap();
        let mut expected = wanted("example.org/web:2");
        expected["metadata"]["namespace"] = place.namespace.clone().into();
        expected["apiVersion"] = "apps/v1".into();
        expected["kind"] = "Deployment".into();
        assert_eq!(extracted, expected);

        // Fields that are left out are given up.
        let mut fewer = wanted("example.org/web:2");
        fewer["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("env");
        client.apply_partial::<Deployment>(&fewer).await.unwrap();
        assert_eq!(skipped(), 4);
        until("the variable is gone", async || {
            let live = client.live().get::<Deployment>(place.key("web")).await.unwrap()?;
            let spec = live.spec.template.spec?;
            spec.containers[0].env.as_ref().is_none_or(Vec::is_empty).then_some(())
        })
        .await;
    })
    .await;
}

/// No event tells of an apply that changes nothing, so the cache never learns what its owner owns.
#[tokio::test]
async fn an_owner_whom_the_cache_does_not_know_learns_from_the_answer() {
    let place = Place::new().await;
    let before = place.manager();
    let owner = before.client().in_namespace(&place.namespace).with_field_owner("late");
    owner.apply_partial::<Deployment>(&wanted("example.org/web:1")).await.unwrap();

    let manager = place.manager_with(ManagerOptions::with(|options| options.name = "tester".into()));
    let informer = manager.informer::<Deployment>();
    let client = manager.client().in_namespace(&place.namespace).with_field_owner("late");
    beside(&manager, async {
        informer.wait_synced().await;
        let extracted = client.extract::<Deployment>(place.key("web")).await.unwrap().unwrap();
        assert_eq!(extracted["spec"]["replicas"], 2);
        for _ in 0..3 {
            client.apply_partial::<Deployment>(&wanted("example.org/web:1")).await.unwrap();
        }
        let metrics = manager.metrics().encode();
        assert!(metrics.contains(r#"setpoint_apply_skipped_total{controller="tester"} 2"#), "{metrics}");
    })
    .await;
}

#[tokio::test]
async fn a_typed_partial_object_owns_the_fields_that_were_set_and_no_other() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<Deployment>();
    let client = manager.client().in_namespace(&place.namespace);
    beside(&manager, async {
        client.apply_partial::<Deployment>(&wanted("example.org/web:1")).await.unwrap();
        let scaler = client.with_field_owner("scaler");
        let partial = Deployment {
            metadata: place.key("web").metadata(),
            spec: DeploymentSpec { replicas: Some(5), ..DeploymentSpec::default() },
            ..Deployment::default()
        };
        let scaled = scaler.apply(&partial).await.unwrap();
        assert_eq!(scaled.spec.replicas, Some(5));
        let containers = &scaled.spec.template.spec.as_ref().unwrap().containers;
        assert_eq!(containers.len(), 1, "the other owner's fields stay");
        let extracted = scaler.extract::<Deployment>(place.key("web")).await.unwrap().unwrap();
        assert_eq!(extracted["spec"], json!({"replicas": 5}));
    })
    .await;
}
