//! Server-side apply that is sent only when it would change something.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use setpoint::{Action, Client, Context, Controller, Key, Manager, ManagerOptions};

use crate::controllers::{CONFIG_MAPS, beside, until};
use crate::fake::Fake;

fn wanted(value: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}},
        "data": {"key": value}}),
    )
    .unwrap()
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.org", version = "v1", kind = "Custom", namespaced)]
struct CustomSpec {
    parts: BTreeMap<String, String>,
}

fn applies(fake: &Fake) -> usize {
    fake.writes().iter().filter(|call| call.starts_with("PATCH")).count()
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_skipped_until_somebody_takes_or_changes_a_field() {
    let fake = Fake::new();
    let options = ManagerOptions::with(|options| options.name = "tester".into());
    let manager = Manager::new(fake.client(), options);
    let informer = manager.informer::<ConfigMap>();
    let client = manager.client();
    beside(&manager, async {
        let seen = async |object: serde_json::Value| {
            let revision = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            informer.store().wait_until(Some("default"), revision).await;
        };
        client.apply(&wanted("1")).await.unwrap();
        assert_eq!(applies(&fake), 1);
        let body = &fake.bodies()[0];
        assert_eq!((&body["kind"], &body["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        for _ in 0..5 {
            let object = client.apply(&wanted("1")).await.unwrap();
            assert_eq!(object.data.as_ref().unwrap()["key"], "1");
        }
        assert_eq!(applies(&fake), 1, "nothing would change");
        assert!(
            manager.metrics().encode().contains(r#"setpoint_apply_skipped_total{controller="tester"} 5"#)
        );

        client.apply(&wanted("2")).await.unwrap();
        assert_eq!(applies(&fake), 2, "another value is sent");

        // Somebody else changes a field that is ours: the server then takes it from us.
        let mut foreign = fake.get(CONFIG_MAPS, "default", "a").unwrap();
        foreign["data"]["key"] = "foreign".into();
        foreign["metadata"]["managedFields"][0]["fieldsV1"].as_object_mut().unwrap().remove("f:data");
        seen(fake.put(CONFIG_MAPS, foreign)).await;
        client.apply(&wanted("2")).await.unwrap();
        assert_eq!(applies(&fake), 3, "a field that was taken is applied again");

        // Somebody else adds a field of their own: that is no business of ours.
        let mut foreign = fake.get(CONFIG_MAPS, "default", "a").unwrap();
        foreign["data"]["other"] = "theirs".into();
        seen(fake.put(CONFIG_MAPS, foreign)).await;
        client.apply(&wanted("2")).await.unwrap();
        assert_eq!(applies(&fake), 3);

        // Fewer fields than before must be sent, so that the server gives the rest up.
        let fewer = json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"key": "2"}});
        client.apply_partial::<ConfigMap>(&fewer).await.unwrap();
        assert_eq!(applies(&fake), 4);

        let extracted = client.extract::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        assert_eq!(extracted["data"], json!({"key": "2"}));
        assert_eq!(extracted["metadata"], json!({"name": "a", "namespace": "default"}));
        client.with_field_owner("another").apply(&wanted("2")).await.unwrap();
        assert_eq!(applies(&fake), 5, "another owner applies for itself");
    })
    .await;
}

/// A map that is applied empty and has what others put into it: whether it may only the schema says.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_compared_is_applied_once_to_each_state_of_the_object() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, serde_json::to_value(wanted("1")).unwrap());
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let informer = manager.informer::<ConfigMap>();
    let client = manager.client();
    let config =
        json!({"metadata": {"name": "a", "namespace": "default", "labels": {}}, "data": {"key": "1"}});
    beside(&manager, async {
        let apply = async |config| drop(client.apply_partial::<ConfigMap>(config).await.unwrap());
        for _ in 0..3 {
            apply(&config).await;
        }
        assert_eq!(applies(&fake), 1, "the object is the answer to it");
        let another = json!({"metadata": {"name": "a", "namespace": "default", "labels": {}}, "data": {}});
        apply(&another).await;
        assert_eq!(applies(&fake), 2, "another configuration is sent");
        let mut object = fake.get(CONFIG_MAPS, "default", "a").unwrap();
        object["data"]["other"] = "theirs".into();
        let changed = fake.put(CONFIG_MAPS, object);
        let revision = changed["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        informer.store().wait_until(Some("default"), revision).await;
        for _ in 0..3 {
            apply(&another).await;
        }
        assert_eq!(applies(&fake), 3, "and again when somebody changed it");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_empty_is_extracted_without_what_others_put_into_it() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<ConfigMap>();
    manager.informer::<Custom>();
    let (client, other) = (manager.client(), manager.client().with_field_owner("other"));
    let config =
        |field: &str, value| json!({"metadata": {"name": "a", "namespace": "default"}, field: value});
    let (none, theirs) = (|| json!({}), || json!({"theirs": "1"}));
    beside(&manager, async {
        client.apply_partial::<ConfigMap>(&config("data", none())).await.unwrap();
        other.apply_partial::<ConfigMap>(&config("data", theirs())).await.unwrap();
        let extracted = client.extract::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        assert_eq!(extracted["data"], none());
        let reads = || fake.reads("customs/a").len();
        client.apply_partial::<Custom>(&config("spec", json!({"parts": none()}))).await.unwrap();
        assert_eq!((extracted_parts(&client).await, reads()), (none(), 0));
        other.apply_partial::<Custom>(&config("spec", json!({"parts": theirs()}))).await.unwrap();
        assert_eq!((extracted_parts(&client).await, reads()), (none(), 1));
    })
    .await;
}

async fn extracted_parts(client: &Client) -> serde_json::Value {
    let mut extracted = client.extract::<Custom>(("default", "a")).await.unwrap().unwrap();
    extracted["spec"]["parts"].take()
}

/// The cache shows what was applied before last: nothing can be skipped by it.
#[tokio::test(start_paused = true)]
async fn an_apply_is_not_skipped_by_a_cache_that_lacks_an_own_write() {
    for consistent in [true, false] {
        let fake = Fake::new();
        let manager = Manager::new(fake.client(), ManagerOptions::default());
        let server = fake.clone();
        let controller = Controller::for_kind::<ConfigMap>(&manager);
        let controller = if consistent { controller } else { controller.without_read_your_writes() };
        controller
            .register(move |ctx: Context, _: Key| {
                let server = server.clone();
                async move {
                    if server.writes().len() == 1 {
                        let client = ctx.client();
                        client.apply(&wanted("1")).await?;
                        client.get::<ConfigMap>(("default", "a")).await?;
                        server.hold_watches(true);
                        client.apply(&wanted("2")).await?;
                        // With its own writes to be seen, this waits in vain for five seconds.
                        let read = client.get::<ConfigMap>(("default", "a")).await;
                        assert_eq!(read.is_err_and(|error| error.is_stale()), consistent);
                        client.apply(&wanted("1")).await?;
                    }
                    Ok(Action::done())
                }
            })
            .unwrap();
        let client = manager.client();
        beside(&manager, async {
            client.create(&wanted("0")).await.unwrap();
            until("three applies", || applies(&fake) == 3).await;
            assert_eq!(fake.get(CONFIG_MAPS, "default", "a").unwrap()["data"]["key"], "1");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_applied_before_the_cache_knew_it_is_asked_of_the_server() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let informer = manager.informer::<ConfigMap>();
    let late = manager.client().with_field_owner("late");
    let mut object = serde_json::to_value(wanted("1")).unwrap();
    object["metadata"]["managedFields"] = json!([
        {"manager": "late", "operation": "Apply", "apiVersion": "v1", "fieldsV1": {"f:data": {"f:key": {}}}},
        {"manager": "late", "operation": "Apply", "apiVersion": "v1", "subresource": "status",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}]);
    fake.put(CONFIG_MAPS, object);
    beside(&manager, async {
        informer.wait_synced().await;
        assert!(informer.store().get("default/a").unwrap().managed_fields().is_empty());
        let extracted = late.extract::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        assert_eq!(extracted["data"], json!({"key": "1"}));
        let status = late.extract_status::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        assert_eq!(status["metadata"]["labels"], json!({"app": "web"}));
        let nobody = manager.client().with_field_owner("nobody");
        assert_eq!(nobody.extract::<ConfigMap>(("default", "a")).await.unwrap(), None);
    })
    .await;
}
