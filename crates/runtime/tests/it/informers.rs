//! Informers over a server that behaves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;
use setpoint::Target;
use setpoint::clock::Random;
use setpoint::informer::{
    ClientListerWatcher, Connect, Event, FactoryOptions, Index, InformerFactory, InformerOptions,
    LabelMatcher, ListError, ReflectorOptions, SharedInformer, SubscribeOptions, Subscription, Waited,
    remove_paths,
};

use crate::misdeed::Misdeed;
use crate::world::World;

pub fn factory(world: &World) -> InformerFactory {
    let options = FactoryOptions::with(|options| options.random = Random::from_seed(0));
    InformerFactory::new(world.client(), options)
}

async fn started(world: &World) -> SharedInformer {
    let informer = factory(world).informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    informer
}

/// An event in few words: `+a/x` added, `=a/x` initial, `~a/x` updated, `-a/x` deleted, `?a/x` deletion inferred.
fn word(event: &Event) -> String {
    let sign = match event {
        Event::Add { is_initial: true, .. } => '=',
        Event::Add { .. } => '+',
        Event::Update { .. } if event.is_resync() => '.',
        Event::Update { .. } => '~',
        Event::Delete { final_state_unknown: true, .. } => '?',
        Event::Delete { .. } => '-',
    };
    format!("{sign}{}", event.key())
}

async fn words(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut words = Vec::new();
    for _ in 0..count {
        let event = tokio::time::timeout(Duration::from_secs(3600), subscription.recv()).await;
        words.push(word(&event.expect("an event comes within an hour").expect("the informer lives")));
    }
    words
}

#[tokio::test(start_paused = true)]
async fn the_first_state_is_streamed_and_the_stream_goes_on_as_the_watch() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let informer = started(&world).await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    world.put("a", "y", &json!({}));
    let revision = world.put("a", "x", &json!({"value": "2"}));
    world.delete("a", "y");
    assert_eq!(words(&mut events, 4).await, ["=a/x", "+a/y", "~a/x", "-a/y"]);
    assert_eq!(world.asked().len(), 1, "one request does it all");
    assert_eq!(informer.store().wait_until(Some("a"), revision).await, Waited::Seen);
    let map = informer.lister::<ConfigMap>().get(Some("a"), "x").unwrap().unwrap();
    assert_eq!(map.data.as_ref().unwrap()["value"], "2");
    assert!(map.metadata.managed_fields.is_none());
}

#[tokio::test(start_paused = true)]
async fn one_cache_serves_typed_dynamic_and_metadata_views() {
    let world = World::new();
    world.put_labelled("a", "x", &json!({"value": "1"}), &json!({"app": "web"}));
    world.put_labelled("b", "y", &json!({"value": "2"}), &json!({"app": "batch"}));
    let informer = started(&world).await;
    let dynamic = informer.lister::<DynamicObject>().get(Some("a"), "x").unwrap().unwrap();
    assert_eq!(dynamic.types.as_ref().unwrap().kind, "ConfigMap");
    assert_eq!(dynamic.data["data"]["value"], "1");
    let metadata = informer.lister::<PartialObjectMeta<ConfigMap>>().get(Some("b"), "y").unwrap().unwrap();
    assert_eq!(metadata.metadata.labels.as_ref().unwrap()["app"], "batch");
    let matcher = LabelMatcher::parse("app=web").unwrap();
    let maps = informer.lister::<ConfigMap>();
    assert_eq!(maps.select(None, &matcher).unwrap().len(), 1);
    assert_eq!(maps.select(Some("b"), &matcher).unwrap().len(), 0);
    assert_eq!(maps.list_namespace("b").unwrap().len(), 1);
    assert_eq!(maps.list().unwrap().len(), 2);
    assert!(
        Arc::ptr_eq(&maps.list().unwrap()[0], &maps.get(Some("a"), "x").unwrap().unwrap()),
        "readers share"
    );
}

#[tokio::test(start_paused = true)]
async fn indexes_are_added_before_and_after_the_start_and_follow_changes() {
    let world = World::new();
    world.put("a", "x", &json!({"color": "red"}));
    let informer = factory(&world).informer(Target::of::<ConfigMap>());
    informer.add_index(Index::by_path("early", "data.color")).unwrap();
    informer.start();
    informer.wait_synced().await;
    informer.add_index(Index::by_path("late", "data.color")).unwrap();
    let again = informer.add_index(Index::by_path("late", "data.color"));
    assert_eq!(again.unwrap_err().to_string(), r#"the cache has an index named "late" already"#);
    world.put("a", "y", &json!({"color": "red"}));
    let revision = world.put("a", "x", &json!({"color": "blue"}));
    informer.store().wait_until(Some("a"), revision).await;
    let maps = informer.lister::<ConfigMap>();
    for index in ["early", "late"] {
        let red = maps.by_index(index, "red").unwrap();
        assert_eq!(red.iter().map(|map| map.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), ["y"]);
        assert_eq!(maps.by_index(index, "blue").unwrap().len(), 1);
    }
    world.delete("a", "y");
    informer.store().wait_until(Some("a"), world.revision()).await;
    assert!(maps.by_index("early", "red").unwrap().is_empty());
    assert!(matches!(maps.by_index("absent", "red"), Err(ListError::UnknownIndex(_))));
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_gets_what_is_cached_and_is_synced_when_it_is_done_with_it() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    world.put("a", "y", &json!({}));
    let informer = started(&world).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let registration = informer
        .add_handler(&SubscribeOptions::default(), move |event| record.lock().unwrap().push(word(&event)));
    assert!(!registration.has_synced());
    assert!(registration.sync_handle().wait().await);
    assert_eq!(*seen.lock().unwrap(), ["=a/x", "=a/y"]);
    drop(registration);
    let revision = world.put("a", "z", &json!({}));
    informer.store().wait_until(Some("a"), revision).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen.lock().unwrap().len(), 2, "a removed handler hears no more");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_synced_only_when_the_last_initial_event_is_done_with() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let informer = started(&world).await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    assert!(events.try_recv().is_some());
    assert!(!events.has_synced(), "the event was handed out, but may still be worked on");
    assert!(events.try_recv().is_none());
    assert!(events.has_synced());
}

#[tokio::test(start_paused = true)]
async fn each_handler_resyncs_in_its_own_time() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let informer = started(&world).await;
    let every_minute = SubscribeOptions::with(|options| options.resync = Some(Duration::from_secs(60)));
    let mut minutely = informer.subscribe(&every_minute);
    let mut never = informer.subscribe(&SubscribeOptions::default());
    let begun = tokio::time::Instant::now();
    assert_eq!(words(&mut minutely, 3).await, ["=a/x", ".a/x", ".a/x"]);
    assert_eq!(begun.elapsed().as_secs(), 120);
    assert_eq!(words(&mut never, 1).await, ["=a/x"]);
    assert!(never.try_recv().is_none());
}

#[tokio::test(start_paused = true)]
async fn informers_are_shared_while_held_and_stop_when_dropped() {
    let world = World::new();
    let factory = factory(&world);
    let first = factory.informer(Target::of::<ConfigMap>());
    let second = factory.informer(Target::of::<ConfigMap>());
    let metadata = factory.informer(Target::of::<ConfigMap>().metadata_only());
    let other = factory.informer(Target::of::<ConfigMap>().labels("app=web"));
    assert_eq!(factory.informers().len(), 2, "metadata is served from the whole objects");
    factory.start();
    factory.wait_for_cache_sync().await;
    assert_eq!(world.open_watches(), 2);
    let mut events = first.subscribe(&SubscribeOptions::default());
    drop((first, metadata, other));
    assert_eq!(factory.informers().len(), 1);
    drop(second);
    assert!(events.recv().await.is_none(), "the subscription learns that the informer is gone");
    tokio::task::yield_now().await;
    assert_eq!((factory.informers().len(), world.open_watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn metadata_and_whole_objects_share_one_watch_in_either_order() {
    let whole = Target::of::<ConfigMap>;
    let metadata = || whole().metadata_only();
    for [first, second] in [[whole(), metadata()], [metadata(), whole()]] {
        let world = World::new();
        world.put("a", "x", &json!({"value": "1"}));
        let factory = factory(&world);
        let held = [factory.informer(first), factory.informer(second), factory.informer(metadata())];
        let mut events = held[0].subscribe(&SubscribeOptions::default());
        assert_eq!(factory.informers().len(), 1);
        factory.start();
        factory.wait_for_cache_sync().await;
        assert_eq!((world.open_watches(), world.asked()[0].accept.as_str()), (1, "application/json"));
        assert_eq!(words(&mut events, 1).await, ["=a/x"]);
        for informer in &held {
            assert!(!informer.target().metadata_only);
            let map = informer.lister::<ConfigMap>().get(Some("a"), "x").unwrap().unwrap();
            assert_eq!(map.data.as_ref().unwrap()["value"], "1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whole_objects_that_come_too_late_have_a_watch_of_their_own() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let factory = factory(&world);
    let metadata = factory.informer(Target::of::<ConfigMap>().metadata_only());
    metadata.start();
    metadata.wait_synced().await;
    let whole = factory.informer(Target::of::<ConfigMap>());
    assert!(metadata.target().metadata_only && !whole.target().metadata_only);
    whole.start();
    whole.wait_synced().await;
    assert_eq!((factory.informers().len(), world.open_watches()), (2, 2));
    let later = factory.informer(Target::of::<ConfigMap>().metadata_only());
    assert!(!later.target().metadata_only, "from now on the whole ones serve both");
    // An informer with a transform shares its cache with no other.
    let target = || Target::of::<ConfigMap>().labels("app=web");
    let transform = InformerOptions::with(|options| options.transform = Some(remove_paths(["data"])));
    let own = factory.informer_with(target().metadata_only(), &transform);
    assert!(!factory.informer(target()).target().metadata_only && own.target().metadata_only);
}

#[tokio::test(start_paused = true)]
async fn whole_objects_bring_their_own_options() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let factory = factory(&world);
    let metadata = factory.informer(Target::of::<ConfigMap>().metadata_only());
    let options = InformerOptions::with(|options| {
        options.transform = Some(remove_paths(["data"]));
        options.decoded_bytes = Some(0);
    });
    let whole = factory.informer_with(Target::of::<ConfigMap>(), &options);
    factory.start();
    factory.wait_for_cache_sync().await;
    let map = metadata.lister::<ConfigMap>().get(Some("a"), "x").unwrap().unwrap();
    assert!(map.data.is_none());
    assert_eq!(whole.store().decoded_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_carry_selectors_and_refuse_compression() {
    let world = World::new();
    let target = Target::of::<ConfigMap>().in_namespace("a").labels("app in (x,y)").fields("metadata.name=z");
    let informer = factory(&world).informer(target.metadata_only());
    informer.start();
    informer.wait_synced().await;
    let asked = world.asked()[0].clone();
    assert_eq!(asked.path, "/api/v1/namespaces/a/configmaps");
    assert_eq!(asked.get("labelSelector"), Some("app in (x,y)"));
    assert_eq!(asked.get("fieldSelector"), Some("metadata.name=z"));
    assert_eq!(asked.get("allowWatchBookmarks"), Some("true"));
    assert_eq!(asked.accept, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    assert_eq!(asked.accept_encoding, "identity");
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_share_one_cache_each_with_its_own_watch() {
    let world = World::new();
    for namespace in ["a", "b", "c"] {
        world.put(namespace, "x", &json!({}));
    }
    let target = Target::of::<ConfigMap>().in_namespaces(["a".to_owned(), "b".to_owned()]);
    let informer = factory(&world).informer(target);
    informer.start();
    informer.wait_synced().await;
    assert_eq!((informer.store().len(), world.open_watches()), (2, 2));
    let revision = world.put("b", "y", &json!({}));
    assert_eq!(informer.store().wait_until(Some("b"), revision).await, Waited::Seen);
    assert_eq!(informer.store().wait_until(Some("c"), revision).await, Waited::NotCovered);
}

#[tokio::test(start_paused = true)]
async fn a_relist_deletes_what_is_gone_and_tells_so() {
    let world = World::new();
    world.put("a", "gone", &json!({}));
    world.put("a", "kept", &json!({}));
    world.put("a", "made-anew", &json!({"generation": "1"}));
    // The first watch ends with word that its version is gone; meanwhile things change.
    let mut first = true;
    world.judge(move |_| Misdeed {
        close_after: std::mem::take(&mut first).then_some(4),
        ..Misdeed::default()
    });
    let informer = started(&world).await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    assert_eq!(words(&mut events, 3).await, ["=a/gone", "=a/kept", "=a/made-anew"]);
    world.delete("a", "gone");
    world.delete("a", "made-anew");
    world.put("a", "made-anew", &json!({"generation": "2"}));
    world.put("a", "new", &json!({}));
    world.compact();
    assert_eq!(words(&mut events, 4).await, ["?a/gone", "?a/made-anew", "+a/made-anew", "+a/new"]);
    assert_eq!(informer.metrics().replaces.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_to_an_older_revision_resets_the_wait() {
    let world = World::new();
    for number in 0..50 {
        world.put("a", "x", &json!({"n": number.to_string()}));
    }
    let informer = started(&world).await;
    let store = informer.store().clone();
    let waits = async { store.wait_until(Some("a"), 10_000).await };
    let restores = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.restore(20);
    };
    let (outcome, ()) = tokio::join!(waits, restores);
    assert_eq!(outcome, Waited::Reset);
    assert_eq!(informer.store().revision(), 20);
}

#[tokio::test(start_paused = true)]
async fn field_sets_of_own_managers_are_kept_and_no_others() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let options = FactoryOptions::default();
    options.field_owners.add("mine");
    let informer = InformerFactory::new(world.client(), options).informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    let object = informer.store().get("a/x").unwrap();
    let [managed] = object.managed_fields() else { panic!("one manager is ours") };
    assert_eq!((managed.manager.as_str(), managed.operation.as_str()), ("mine", "Apply"));
    assert_eq!(&*managed.fields, br#"{"f:data":{"f:value":{}}}"#);
}

#[tokio::test(start_paused = true)]
async fn namespaces_chosen_by_label_come_and_go() {
    let (maps, namespaces) = (World::new(), World::new());
    for namespace in ["a", "b", "c"] {
        maps.put(namespace, "x", &json!({}));
    }
    namespaces.put("", "a", &json!({}));
    let (map_client, namespace_client) = (maps.client(), namespaces.client());
    let connect: Connect = Arc::new(move |target, namespace| {
        let client = if target.resource.plural == "namespaces" { &namespace_client } else { &map_client };
        Arc::new(ClientListerWatcher::new(client.clone(), target, namespace))
    });
    let factory = InformerFactory::with_connect(connect, FactoryOptions::default());
    let informer = factory.informer(Target::of::<ConfigMap>().in_namespaces_labelled("env=prod"));
    assert_eq!(factory.informers().len(), 2, "the namespaces have an informer of their own");
    informer.start();
    informer.wait_synced().await;
    let mut events = informer.subscribe(&SubscribeOptions::default());
    assert_eq!(words(&mut events, 1).await, ["=a/x"]);
    namespaces.put("", "b", &json!({}));
    assert_eq!(words(&mut events, 1).await, ["=b/x"]);
    namespaces.delete("", "a");
    assert_eq!(words(&mut events, 1).await, ["?a/x"]);
    assert_eq!(maps.open_watches(), 1);
    assert_eq!(informer.store().wait_until(Some("a"), 1).await, Waited::NotCovered);
    assert_eq!(namespaces.asked()[0].get("labelSelector"), Some("env=prod"));
    drop((informer, events));
    tokio::task::yield_now().await;
    assert_eq!((maps.open_watches(), namespaces.open_watches()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn without_any_namespace_an_informer_is_synced_and_empty() {
    let world = World::new();
    let informer = factory(&world).informer(Target::of::<ConfigMap>().in_namespaces([]));
    informer.start();
    informer.wait_synced().await;
    assert!(informer.store().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_is_an_error_on_its_own_key_alone() {
    let world = World::new();
    world.put("a", "bad", &json!(["no", "map"]));
    world.put("a", "good", &json!({"value": "1"}));
    for watch_list in [true, false] {
        let reflector = ReflectorOptions::with(|options| options.watch_list = watch_list);
        let options = FactoryOptions::with(|options| options.reflector = reflector);
        let informer = InformerFactory::new(world.client(), options).informer(Target::of::<ConfigMap>());
        informer.start();
        informer.wait_synced().await;
        let maps = informer.lister::<ConfigMap>();
        let error = maps.get(Some("a"), "bad").unwrap_err();
        assert_eq!(error.key.as_str(), "a/bad");
        assert!(maps.get(Some("a"), "good").unwrap().is_some());
        assert_eq!(informer.store().decode_counts().2, 1, "and it is counted");
        assert!(informer.store().get("a/bad").is_some(), "its metadata is there");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_list_comes_in_pages_and_gives_objects_their_types() {
    let world = World::new();
    for number in 0..7 {
        world.put("a", &format!("x{number}"), &json!({}));
    }
    let reflector = ReflectorOptions::with(|options| {
        options.watch_list = false;
        options.page_size = 3;
    });
    let options = FactoryOptions::with(|options| options.reflector = reflector);
    let informer = InformerFactory::new(world.client(), options).informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    assert_eq!(informer.metrics().lists.get(), 3);
    let dynamic = informer.lister::<DynamicObject>().get(Some("a"), "x6").unwrap().unwrap();
    assert_eq!(dynamic.types.as_ref().unwrap().kind, "ConfigMap");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_in_time() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let mut first = true;
    world.judge(move |_| Misdeed { silent: std::mem::take(&mut first), ..Misdeed::default() });
    let begun = tokio::time::Instant::now();
    let informer = started(&world).await;
    assert_eq!(informer.store().len(), 1);
    assert_eq!(begun.elapsed().as_secs(), 60, "the deadline of a request");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_loses_that_event_and_no_other() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    world.put("a", "y", &json!({}));
    let informer = started(&world).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    let registration = informer.add_handler(&SubscribeOptions::default(), move |event| {
        assert_ne!(event.key().name(), "x", "this one panics");
        record.lock().unwrap().push(word(&event));
    });
    assert!(registration.sync_handle().wait().await);
    assert_eq!(*seen.lock().unwrap(), ["=a/y"]);
    assert_eq!(informer.metrics().handler_panics.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn transforms_change_what_is_cached() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let options = InformerOptions::with(|options| options.transform = Some(remove_paths(["data"])));
    let informer = factory(&world).informer_with(Target::of::<ConfigMap>(), &options);
    informer.start();
    informer.wait_synced().await;
    assert!(informer.lister::<ConfigMap>().get(Some("a"), "x").unwrap().unwrap().data.is_none());
}
