//! Server-side apply that is sent only when it would change something.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::{Manager, ManagerOptions};

use crate::controllers::{CONFIG_MAPS, beside};
use crate::fake::Fake;

fn wanted(value: &str) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}},
        "data": {"key": value}}),
    )
    .unwrap()
}

fn applies(fake: &Fake) -> usize {
    fake.writes().iter().filter(|call| call.starts_with("PATCH")).count()
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_skipped_until_somebody_takes_or_changes_a_field() {
    let fake = Fake::new();
    let options = ManagerOptions { name: "tester".into(), ..ManagerOptions::default() };
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
