//! Lists, watches, caches and handlers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint::Target;
use setpoint::informer::{
    Event, FactoryOptions, Index, InformerFactory, ReflectorOptions, SharedInformer, SubscribeOptions,
};

use super::{Place, make_namespace, until, until_true};

fn target(place: &Place) -> Target {
    Target::of::<ConfigMap>().in_namespace(&place.namespace)
}

fn factory(place: &Place, reflector: ReflectorOptions) -> InformerFactory {
    InformerFactory::new(place.client.clone(), FactoryOptions::with(|options| options.reflector = reflector))
}

/// Names and values of the cached objects. Every namespace of a real server has one more object than the test
/// created.
fn cached(informer: &SharedInformer) -> BTreeMap<String, String> {
    let snapshot = informer.store().snapshot();
    let entry = |object: &setpoint::Object| {
        let value: Value = object.decode().unwrap();
        (object.name().to_owned(), value["data"]["key"].as_str().unwrap_or_default().to_owned())
    };
    snapshot.iter().map(entry).filter(|(name, _)| name != "kube-root-ca.crt").collect()
}

async fn truth(place: &Place) -> BTreeMap<String, String> {
    let list = place.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let entry = |object: ConfigMap| {
        let value = object.data.and_then(|data| data.get("key").cloned()).unwrap_or_default();
        (object.metadata.name.unwrap(), value)
    };
    list.items.into_iter().map(entry).filter(|(name, _)| name != "kube-root-ca.crt").collect()
}

#[tokio::test]
async fn the_first_state_is_streamed_or_listed_in_pages_and_then_followed() {
    let place = Place::new().await;
    for number in 0..25 {
        place.put(&format!("c{number:02}"), "old").await;
    }
    for watch_list in [true, false] {
        let options = ReflectorOptions::with(|options| {
            options.watch_list = watch_list;
            options.page_size = 10;
        });
        let informer = factory(&place, options).informer(target(&place));
        informer.start();
        informer.wait_synced().await;
        assert_eq!(cached(&informer), truth(&place).await, "streamed: {watch_list}");
        let lists = informer.metrics().lists.get();
        assert_eq!(lists > 0, !watch_list, "{lists} lists");
        let patch = Patch::Merge(json!({"data": {"key": format!("new {watch_list}")}}));
        place.api::<ConfigMap>().patch("c07", &PatchParams::default(), &patch).await.unwrap();
        let name = if watch_list { "c08" } else { "c09" };
        place.api::<ConfigMap>().delete(name, &DeleteParams::default()).await.unwrap();
        let wanted = truth(&place).await;
        until_true("the changes", || cached(&informer) == wanted).await;
    }
}

#[tokio::test]
async fn watches_that_the_server_ends_go_on_without_a_loss() {
    let place = Place::new().await;
    let options = ReflectorOptions::with(|options| options.shortest_watch = Duration::from_secs(1));
    let informer = factory(&place, options).informer(target(&place));
    let believed: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let belief = Arc::clone(&believed);
    let _handler = informer.add_handler(&SubscribeOptions::default(), move |event| {
        let mut belief = belief.lock().unwrap();
        let (name, uid) = (event.object().name().to_owned(), event.object().uid().to_string());
        match event {
            Event::Add { .. } => assert_eq!(belief.insert(name, uid), None),
            Event::Update { .. } => assert_eq!(belief.get(&name), Some(&uid)),
            Event::Delete { .. } => assert_eq!(belief.remove(&name), Some(uid)),
        }
    });
    informer.start();
    informer.wait_synced().await;
    let mut number = 0;
    until("three watches have ended", async || {
        number += 1;
        let name = format!("w{}", number % 5);
        if number % 3 == 0 {
            let _ = place.api::<ConfigMap>().delete(&name, &DeleteParams::default()).await;
        } else {
            let object = place.config_map(&name, &number.to_string());
            let _ = place.api::<ConfigMap>().create(&PostParams::default(), &object).await;
        }
        (informer.metrics().watches.get() > 3).then_some(())
    })
    .await;
    let wanted = truth(&place).await;
    until_true("the truth", || cached(&informer) == wanted).await;
    assert_eq!(informer.metrics().replaces.get(), 1, "nothing was asked for anew");
    let names = |belief: &BTreeMap<String, String>| {
        belief.keys().filter(|name| !name.contains('.')).cloned().collect::<Vec<_>>()
    };
    // The handler hears of it after the cache has it.
    let wanted: Vec<String> = wanted.into_keys().collect();
    until_true("the belief", || names(&believed.lock().unwrap()) == wanted).await;
}

#[tokio::test]
async fn selectors_metadata_indexes_and_late_handlers() {
    let place = Place::new().await;
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db")] {
        let mut object = place.config_map(name, "1");
        object.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        place.api::<ConfigMap>().create(&PostParams::default(), &object).await.unwrap();
    }
    let factory = factory(&place, ReflectorOptions::default());
    let by_label = factory.informer(target(&place).labels("app in (web)"));
    let by_field = factory.informer(target(&place).fields("metadata.name=c"));
    let metadata = factory.informer(target(&place).labels("app=db").metadata_only());
    by_label
        .add_index(Index::new("app", |object| {
            object.labels().get("app").map(str::to_owned).into_iter().collect()
        }))
        .unwrap();
    factory.start();
    factory.wait_for_cache_sync().await;
    assert_eq!(cached(&by_label).into_keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(cached(&by_field).into_keys().collect::<Vec<_>>(), ["c"]);
    assert_eq!(cached(&metadata), [("c".to_owned(), String::new())].into(), "no data, only metadata");
    assert_eq!(by_label.store().snapshot().by_index("app", "web").unwrap().count(), 2);

    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&told);
    let late = by_label.add_handler(&SubscribeOptions::default(), move |event| {
        let line = match &event {
            Event::Add { object, is_initial } => format!("add {} {is_initial}", object.name()),
            Event::Update { new, .. } => format!("update {}", new.name()),
            Event::Delete { object, .. } => format!("delete {}", object.name()),
        };
        log.lock().unwrap().push(line);
    });
    late.sync_handle().wait().await;
    assert_eq!(*told.lock().unwrap(), ["add a true", "add b true"]);
    // Ceasing to match is a deletion, coming to match an addition.
    for (name, app) in [("a", "db"), ("c", "web")] {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
        place.api::<ConfigMap>().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    until_true("both", || told.lock().unwrap().len() == 4).await;
    assert_eq!(told.lock().unwrap()[2..], ["delete a", "add c false"]);
}

#[tokio::test]
async fn namespaces_that_come_to_carry_a_label_are_watched() {
    let place = Place::new().await;
    let label = format!("team-{}", place.namespace);
    let first = make_namespace(&place.client, json!({&label: "yes"})).await;
    let second = make_namespace(&place.client, json!({})).await;
    for namespace in [&first, &second] {
        let api: Api<ConfigMap> = Api::namespaced(place.client.clone(), namespace);
        let object = ConfigMap {
            metadata: kube::api::ObjectMeta { name: Some("in".into()), ..Default::default() },
            ..ConfigMap::default()
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let target = Target::of::<ConfigMap>().in_namespaces_labelled(&label);
    let informer = factory(&place, ReflectorOptions::default()).informer(target);
    informer.start();
    informer.wait_synced().await;
    let has = |namespace: &str| informer.store().get(&format!("{namespace}/in")).is_some();
    assert!(has(&first) && !has(&second));
    let namespaces: Api<Namespace> = Api::all(place.client.clone());
    let label_as = async |namespace: &str, value: Value| {
        let patch = Patch::Merge(json!({"metadata": {"labels": {&label: value}}}));
        namespaces.patch(namespace, &PatchParams::default(), &patch).await.unwrap();
    };
    label_as(&second, json!("yes")).await;
    until_true("the second is watched", || has(&second)).await;
    label_as(&first, Value::Null).await;
    until_true("the first is forgotten", || !has(&first)).await;
}
