//! Objects that somebody's function cannot handle, or that are of another shape: each an error on its own key, and on
//! no other.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use serde_json::json;
use setpoint::Target;
use setpoint::informer::{
    Event, Index, InformerOptions, LabelMatcher, SubscribeOptions, Transform, Waited, remove_paths,
};

use crate::informers::factory;
use crate::logging::Listener;
use crate::numbers::published;
use crate::world::World;

/// Panics on what says so.
fn brittle() -> Transform {
    std::sync::Arc::new(|json| {
        assert!(!json.windows(7).any(|text| text == b"marzipa"), "this one panics");
        None
    })
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_panics_concerns_that_object_alone() {
    let world = World::new();
    world.put("a", "bad", &json!({"value": "marzipan"}));
    world.put("a", "good", &json!({"value": "1"}));
    let listener = Listener::default();
    let _listens = listener.listen();
    let factory = factory(&world);
    let options = InformerOptions::with(|options| options.transform = Some(brittle()));
    let informer = factory.informer_with(Target::of::<ConfigMap>(), &options);
    informer.start();
    informer.wait_synced().await;
    let maps = informer.lister::<ConfigMap>();
    let error = maps.get(Some("a"), "bad").unwrap_err();
    assert_eq!(error.key.as_str(), "a/bad");
    assert!(error.message.contains("the transform panicked"), "{error}");
    assert!(
        informer.store().get("a/bad").unwrap().json().is_empty(),
        "what it was to remove may be a secret"
    );
    assert!(maps.get(Some("a"), "good").unwrap().is_some());
    // A lone event takes another way than a first state.
    let revision = world.put("a", "good", &json!({"value": "marzipan"}));
    assert_eq!(informer.store().wait_until(Some("a"), revision).await, Waited::Seen);
    assert_eq!(maps.get(Some("a"), "good").unwrap_err().key.as_str(), "a/good");
    for (name, revision) in ["good", "bad"].map(|name| (name, world.put("a", name, &json!({"value": "2"})))) {
        assert_eq!(informer.store().wait_until(Some("a"), revision).await, Waited::Seen);
        assert_eq!(maps.get(Some("a"), name).unwrap().unwrap().data.as_ref().unwrap()["value"], "2");
    }
    assert_eq!(informer.metrics().transform_panics.get(), 2);
    assert_eq!(published(&factory, "setpoint_informer_transform_panics_total"), 2);
    assert_eq!(world.asked().len(), 1, "the watch went on");
    let errors = listener.warnings();
    assert_eq!(errors.len(), 2, "{errors:?}");
    for (error, key) in errors.iter().zip(["a/bad", "a/good"]) {
        assert!(error.contains("ConfigMap") && error.contains(key) && !error.contains("marzipan"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_keeps_nothing_that_was_to_be_removed() {
    let world = World::new();
    let nested = (0..130).fold(json!("marzipan"), |value, _| json!([value]));
    world.put("a", "bad", &nested);
    world.put("a", "good", &json!({"value": "marzipan"}));
    let factory = factory(&world);
    let options = InformerOptions::with(|options| options.transform = Some(remove_paths(["data.value"])));
    let informer = factory.informer_with(Target::of::<ConfigMap>(), &options);
    informer.start();
    informer.wait_synced().await;
    for name in ["a/bad", "a/good"] {
        let json = informer.store().get(name).unwrap().json().into_owned();
        assert!(!String::from_utf8(json).unwrap().contains("marzipan"), "{name}");
    }
    let bad = informer.lister::<ConfigMap>().get(Some("a"), "bad");
    assert_eq!(bad.unwrap_err().key.as_str(), "a/bad");
    assert!(informer.lister::<ConfigMap>().get(Some("a"), "good").unwrap().is_some());
    assert_eq!(published(&factory, "setpoint_informer_transform_panics_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_panics_concerns_that_object_alone() {
    let world = World::new();
    world.put("a", "bad", &json!({}));
    world.put("a", "good", &json!({"color": "red"}));
    let factory = factory(&world);
    let informer = factory.informer(Target::of::<ConfigMap>());
    let by_color = |name| Index::new(name, |object| vec![object.path("data.color").expect("all have one")]);
    informer.add_index(by_color("early")).unwrap();
    informer.start();
    informer.wait_synced().await;
    informer.add_index(by_color("late")).unwrap();
    let mut events = informer.subscribe(&SubscribeOptions::default());
    let maps = informer.lister::<ConfigMap>();
    assert!(maps.get(Some("a"), "bad").unwrap().is_some(), "it is cached");
    assert_eq!(maps.by_index("early", "red").unwrap().len(), 1);
    assert_eq!(maps.by_index("late", "red").unwrap().len(), 1);
    assert_eq!(published(&factory, "setpoint_informer_index_panics_total"), 2, "one for each index");
    // It comes to have a value and loses it again.
    for (data, found) in [(json!({"color": "red"}), 2), (json!({}), 1)] {
        let revision = world.put("a", "bad", &data);
        assert_eq!(informer.store().wait_until(Some("a"), revision).await, Waited::Seen);
        assert_eq!(maps.by_index("early", "red").unwrap().len(), found);
    }
    world.delete("a", "bad");
    assert_eq!(informer.store().wait_until(Some("a"), world.revision()).await, Waited::Seen);
    assert_eq!(published(&factory, "setpoint_informer_index_panics_total"), 4);
    let told = std::iter::from_fn(|| events.try_recv()).filter(|event| event.key().name() == "bad");
    assert!(matches!(
        told.collect::<Vec<_>>()[..],
        [Event::Add { .. }, Event::Update { .. }, Event::Update { .. }, Event::Delete { .. }]
    ));
}

#[tokio::test(start_paused = true)]
async fn lists_leave_out_what_does_not_decode_and_say_so_once() {
    let world = World::new();
    let app = json!({"app": "web"});
    world.put_labelled("a", "bad", &json!(["no", "marzipan"]), &app);
    world.put_labelled("a", "good", &json!({"value": "1"}), &app);
    world.put_labelled("b", "good", &json!({"value": "1"}), &app);
    let factory = factory(&world);
    let informer = factory.informer(Target::of::<ConfigMap>());
    let by_app =
        |object: &setpoint::Object| object.labels().get("app").map(str::to_owned).into_iter().collect();
    informer.add_index(Index::new("app", by_app)).unwrap();
    informer.start();
    informer.wait_synced().await;
    let maps = informer.lister::<ConfigMap>();
    let listener = Listener::default();
    let read = || {
        let web = LabelMatcher::parse("app=web").unwrap();
        let lists = [
            (maps.list().unwrap(), 2),
            (maps.list_namespace("a").unwrap(), 1),
            (maps.select(None, &web).unwrap(), 2),
            (maps.select(Some("a"), &web).unwrap(), 1),
            (maps.by_index("app", "web").unwrap(), 2),
        ];
        for (list, expected) in lists {
            assert_eq!(list.len(), expected);
            assert!(list.iter().all(|map| map.metadata.name.as_deref() == Some("good")));
        }
    };
    let listens = listener.listen();
    (0..2).for_each(|_| read());
    drop(listens);
    assert_eq!(published(&factory, "setpoint_informer_decode_errors_total"), 10);
    assert_eq!(maps.get(Some("a"), "bad").unwrap_err().key.as_str(), "a/bad");
    let metadata = informer.lister::<PartialObjectMeta<ConfigMap>>().list().unwrap();
    assert_eq!(metadata.len(), 3, "the metadata view has them all");
    let revision = world.put_labelled("a", "bad", &json!(["still", "marzipan"]), &app);
    informer.store().wait_until(Some("a"), revision).await;
    let listens = listener.listen();
    read();
    drop(listens);
    let warnings = listener.warnings();
    assert_eq!(warnings.len(), 2, "one for each state: {warnings:?}");
    for warning in warnings {
        assert!(warning.contains("ConfigMap") && warning.contains("a/bad"), "{warning}");
        assert!(!warning.contains("marzipan"), "{warning}");
    }
}
