//! A reconcile that is called directly, without a manager.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ApiResource;
use serde_json::json;
use setpoint::finalizer::Lifecycle;
use setpoint::{Action, ClientError, Context, Error, Key, Patch, Query};

use crate::controllers::{CONFIG_MAPS, config_map};
use crate::fake::Fake;

/// Copies the value of a ConfigMap into the annotations, says so, and draws a random number.
async fn reconcile(ctx: Context, key: Key) -> Result<Action, Error> {
    let client = ctx.client();
    let Some(config) = client.get::<ConfigMap>(&key).await? else { return Ok(Action::done()) };
    let Some(value) = config.data.as_ref().and_then(|data| data.get("key")) else {
        ctx.recorder().warning(&*config, "Empty", "there is no value");
        return Ok(Action::done());
    };
    let note = json!({"value": value, "time": ctx.now().to_string(), "random": ctx.random().uid()});
    let patch = json!({"metadata": {"annotations": {"note": note.to_string()}}});
    client.patch::<ConfigMap>(&key, &Patch::Merge(patch)).await?;
    ctx.recorder().normal(&*config, "Noted", "the value was noted");
    Ok(Action::done())
}

fn note(fake: &Fake) -> serde_json::Value {
    let stored = fake.get(CONFIG_MAPS, "default", "a").unwrap();
    serde_json::from_str(stored["metadata"]["annotations"]["note"].as_str().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_reads_the_server_and_its_events_are_readable() {
    let fake = Fake::new();
    let key = Key::namespaced("default", "a");
    let mut test = Context::for_test(fake.client());
    assert_eq!(reconcile(test.context(), key.clone()).await.unwrap(), Action::done());
    assert_eq!(test.events(), []);
    for value in ["1", "2"] {
        fake.put(CONFIG_MAPS, config_map("a", value));
        assert_eq!(reconcile(test.context(), key.clone()).await.unwrap(), Action::done());
        assert_eq!(note(&fake)["value"], value, "the second reconcile reads what is new");
        let events: Vec<String> = test.events().iter().map(ToString::to_string).collect();
        assert_eq!(events, ["Normal Noted the value was noted"]);
    }
    assert_eq!(note(&fake)["time"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn clock_and_seed_are_the_tests() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let noon = || setpoint::clock::tokio_clock("2026-11-15T12:00:00Z".parse().unwrap());
    let mut notes = Vec::new();
    for seed in [7, 7, 8] {
        let mut test = Context::for_test(fake.client()).with_seed(seed).with_clock(noon());
        let action = reconcile(test.context(), Key::namespaced("default", "a")).await.unwrap();
        assert_eq!(action, Action::done());
        assert_eq!(test.events()[0].time.to_string(), "2026-11-15T12:00:00Z");
        notes.push(note(&fake));
    }
    assert_eq!(notes[0], notes[1]);
    assert_ne!(notes[0]["random"], notes[2]["random"]);
}

#[tokio::test(start_paused = true)]
async fn all_reads_go_to_the_server_and_refuse_what_a_cache_refuses() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let test = Context::for_test(fake.client());
    let ctx = test.context();
    let client = ctx.client();
    assert_eq!(client.list::<ConfigMap>(Query::namespace("default")).await.unwrap().len(), 1);
    assert!(client.list::<Secret>(Query::all()).await.unwrap().is_empty());
    let resource = ApiResource::erase::<ConfigMap>(&());
    let object = client.dynamic(&resource).get(("default", "a")).await.unwrap().unwrap();
    assert_eq!(object.path("data.key").as_deref(), Some("1"));
    assert_eq!(client.dynamic(&resource).list(Query::all()).await.unwrap().len(), 1);
    let fields = client.list::<ConfigMap>(Query::all().fields("metadata.name=a")).await;
    assert!(matches!(fields.unwrap_err(), ClientError::BadQuery(_)));
    let index = client.list::<ConfigMap>(Query::all().index("by-value", "1")).await;
    assert!(matches!(index.unwrap_err(), ClientError::BadQuery(_)));
    let lifecycle = client.lifecycle::<ConfigMap>(("default", "a"), "example.org/x", async |_| Ok(()));
    assert!(matches!(lifecycle.await.unwrap(), Lifecycle::Alive(_)));
}
