//! The reflector against a server that is slow, silent, or has another in its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::Target;
use setpoint::client::connect_with;
use setpoint::clock::Random;
use setpoint::informer::{
    ClientListerWatcher, Connect, DeltaQueue, FactoryOptions, InformerFactory, ListRequest, ListerWatcher,
    Reflector, ReflectorOptions, Scope, SharedInformer, Store, SubscribeOptions, WatchFailure, WatchRequest,
    WatchStream,
};
use tokio::time::Instant;

use crate::logging::Listener;
use crate::misdeed::Misdeed;
use crate::world::{World, failure};

/// An informer that has synced, by a plain list or not.
async fn synced(world: &World, watch_list: bool) -> SharedInformer {
    let reflector = ReflectorOptions::with(|options| options.watch_list = watch_list);
    let options = FactoryOptions::with(|options| options.reflector = reflector);
    let informer = InformerFactory::new(world.client(), options).informer(Target::of::<ConfigMap>());
    informer.start();
    informer.wait_synced().await;
    informer
}

/// Waits, on paused time, until the server was asked `count` times.
async fn asked(world: &World, count: usize) {
    while world.asked().len() < count {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_leaves_the_cache_as_it_is() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    // The watch expires, and a gateway answers in the server's place for a while.
    let mut requests = 0;
    world.judge(move |_| {
        requests += 1;
        match requests {
            2 => Misdeed { last_words: Some((0, failure(410, "Expired"))), ..Misdeed::default() },
            3..=6 => Misdeed { status: Some((200, "Maintenance")), ..Misdeed::default() },
            _ => Misdeed::default(),
        }
    });
    let informer = synced(&world, false).await;
    asked(&world, 6).await;
    assert_eq!(informer.store().len(), 1);
    assert_eq!(informer.metrics().replaces.get(), 1);
    assert!(informer.metrics().watch_errors.get() >= 3);
    let revision = world.put("a", "y", &json!({}));
    informer.store().wait_until(None, revision).await;
    assert_eq!(informer.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_peer_is_gone_without_a_word_is_replaced_by_another_without_a_new_state() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    // The object, the end of the first state and one bookmark.
    let mut mute_after = Some(3);
    world.judge(move |_| Misdeed { mute_after: mute_after.take(), ..Misdeed::default() });
    let begun = Instant::now();
    let informer = synced(&world, true).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    let revision = world.put("a", "y", &json!({}));
    informer.store().wait_until(None, revision).await;
    assert_eq!(begun.elapsed().as_secs(), 60 + 150);
    assert_eq!((informer.store().len(), informer.metrics().replaces.get()), (2, 1));
    let asked = world.asked();
    assert_eq!((asked.len(), asked[1].get("resourceVersion")), (2, Some("11")));
}

/// As on kube-apiserver, which sends no bookmarks where nothing changes.
#[tokio::test(start_paused = true)]
async fn a_kind_at_rest_is_watched_for_hours_without_a_new_state() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    // There is one bookmark, and then never a word.
    let mut first = true;
    world.judge(move |asked| {
        let mute_after = if std::mem::take(&mut first) { Some(3) } else { Some(0) };
        Misdeed { mute_after: mute_after.filter(|_| asked.is_watch()), ..Misdeed::default() }
    });
    let informer = synced(&world, true).await;
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    let asked = world.asked();
    assert!(asked.len() > 15, "{}", asked.len());
    assert!(asked.iter().skip(1).all(|asked| asked.is_watch() && !asked.streams_state()));
    assert_eq!(informer.metrics().replaces.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_time_may_be_as_long_as_can_be() {
    for watch_list in [true, false] {
        let world = World::new();
        world.put("a", "x", &json!({}));
        let reflector = ReflectorOptions::with(|options| {
            options.watch_list = watch_list;
            options.sync_deadline = Duration::MAX;
            options.request_deadline = Duration::MAX;
            options.shortest_watch = Duration::MAX;
        });
        let options = FactoryOptions::with(|options| options.reflector = reflector);
        let informer = InformerFactory::new(world.client(), options).informer(Target::of::<ConfigMap>());
        informer.start();
        let synced = tokio::time::timeout(Duration::from_secs(1), informer.wait_synced()).await;
        assert!(synced.is_ok(), "watch_list: {watch_list}");
        let handler = SubscribeOptions::with(|options| {
            options.resync = Some(Duration::MAX);
            options.capacity = usize::MAX;
        });
        let mut events = informer.subscribe(&handler);
        assert!(events.recv().await.is_some());
        world.put("a", "x", &json!({"value": "1"}));
        assert!(events.recv().await.is_some());
        assert_eq!(informer.metrics().watch_panics.get(), 0);
    }
}

/// Lacks the right to watch, and perhaps that to list, as long as `lacks` says so. Each time it is told so in other words.
#[derive(Clone)]
struct Unprivileged {
    inner: Arc<ClientListerWatcher>,
    may_list: bool,
    lacks: Arc<AtomicBool>,
    tries: Arc<AtomicUsize>,
}

impl Unprivileged {
    fn refused(&self, verb: &str) -> Option<WatchFailure> {
        let number = self.tries.fetch_add(1, Ordering::SeqCst);
        let message = format!("cannot {verb} (request {number})");
        let refused = WatchFailure::Status { code: 403, reason: "Forbidden".to_owned(), message };
        self.lacks.load(Ordering::SeqCst).then_some(refused)
    }
}

impl ListerWatcher for Unprivileged {
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        match self.refused("list").filter(|_| !self.may_list) {
            Some(refused) => Box::pin(std::future::ready(Err(refused))),
            None => self.inner.list(request),
        }
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        match self.refused("watch") {
            Some(refused) => Box::pin(std::future::ready(Err(refused))),
            None => self.inner.watch(request),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_warned_of_once_until_it_was_there() {
    for may_list in [false, true] {
        let listener = Listener::default();
        let _listens = listener.listen();
        let world = World::new();
        let (lacks, tries) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (client, lacked, tried) = (world.client(), Arc::clone(&lacks), Arc::clone(&tries));
        let connect: Connect = Arc::new(move |target, namespace| {
            let inner = Arc::new(ClientListerWatcher::new(client.clone(), target, namespace));
            Arc::new(Unprivileged { inner, may_list, lacks: lacked.clone(), tries: tried.clone() })
        });
        let factory = InformerFactory::with_connect(connect, FactoryOptions::default());
        let target = Target::of::<ConfigMap>().in_namespaces(["a", "b"].map(str::to_owned));
        let informer = factory.informer(target);
        informer.start();
        let hour = Duration::from_secs(3600);
        tokio::time::sleep(hour).await;
        assert!(tries.load(Ordering::SeqCst) > 100);
        assert_eq!(listener.warnings().len(), 2, "once for each namespace: {:?}", listener.warnings());
        lacks.store(false, Ordering::SeqCst);
        tokio::time::sleep(hour).await;
        assert!(informer.has_synced());
        lacks.store(true, Ordering::SeqCst);
        tokio::time::sleep(hour).await;
        assert_eq!(listener.warnings().len(), 4, "it went well meanwhile: {:?}", listener.warnings());
    }
}

/// A lister-watcher of somebody's, with a mistake in it: every other watch panics.
struct Brittle(ClientListerWatcher, AtomicUsize);

impl ListerWatcher for Brittle {
    fn list(&self, request: ListRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        self.0.list(request)
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<WatchStream, WatchFailure>> {
        assert!(self.1.fetch_add(1, Ordering::SeqCst) % 2 == 1, "this one panics");
        self.0.watch(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_is_begun_anew() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let watched = ClientListerWatcher::new(world.client(), &Target::of::<ConfigMap>(), None);
    let brittle = Arc::new(Brittle(watched, AtomicUsize::new(0)));
    let reflector = Reflector::new(brittle, ReflectorOptions::default(), Random::from_seed(1));
    let (metrics, queue, store) = (reflector.metrics(), DeltaQueue::default(), Store::default());
    let keep = async {
        while queue.pop(|deltas| deltas.for_each(|delta| drop(store.apply(&Scope::All, delta)))).await {}
    };
    let test = async {
        while store.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(metrics.watch_panics.get(), 1);
        // A watch ends within ten minutes.
        while metrics.watch_panics.get() < 2 {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        store.wait_until(None, world.put("a", "y", &json!({}))).await;
        assert_eq!(store.len(), 2);
    };
    tokio::select! {
        () = reflector.run(&queue) => unreachable!("the queue is open"),
        () = keep => unreachable!("the queue is open"),
        () = test => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_making_panics_is_made_again() {
    let target = Target::of::<ConfigMap>;
    for (target, panics) in [(target(), 2), (target().in_namespaces(["a", "b"].map(str::to_owned)), 3)] {
        let world = World::new();
        world.put("a", "x", &json!({}));
        world.put("b", "x", &json!({}));
        let (client, calls) = (world.client(), AtomicUsize::new(0));
        let connect: Connect = Arc::new(move |target, namespace| {
            assert!(calls.fetch_add(1, Ordering::SeqCst) >= panics, "this one panics");
            Arc::new(ClientListerWatcher::new(client.clone(), target, namespace))
        });
        let factory = InformerFactory::with_connect(connect, FactoryOptions::default());
        let informer = factory.informer(target);
        informer.start();
        let synced = tokio::time::timeout(Duration::from_secs(60), informer.wait_synced()).await;
        assert!(synced.is_ok(), "it watches nothing");
        assert_eq!((informer.store().len(), informer.metrics().watch_panics.get()), (2, panics as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_state_may_take_as_long_as_it_needs_if_it_gets_on() {
    for watch_list in [true, false] {
        let world = World::new();
        for number in 0..50 {
            world.put("a", &format!("x{number:02}"), &json!({"value": "x".repeat(20_000)}));
        }
        let trickle = Some((4096, Duration::from_secs(10)));
        world.judge(move |_| Misdeed { trickle, ..Misdeed::default() });
        let begun = Instant::now();
        let informer = synced(&world, watch_list).await;
        assert_eq!(informer.store().len(), 50);
        assert!(begun.elapsed() > Duration::from_secs(2000), "{:?}", begun.elapsed());
        let asked = world.asked();
        assert!(asked[0].streams_state() == watch_list && asked.iter().skip(1).all(|asked| asked.is_watch()));
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_server_sends_whole_objects_their_metadata_is_kept_alone() {
    // This one always does.
    let world = World::new();
    world.put_labelled("a", "x", &json!({"value": "1"}), &json!({"app": "web"}));
    for watch_list in [true, false] {
        let reflector = ReflectorOptions::with(|options| options.watch_list = watch_list);
        let options = FactoryOptions::with(|options| options.reflector = reflector);
        let target = Target::of::<ConfigMap>().metadata_only();
        let informer = InformerFactory::new(world.client(), options).informer(target);
        informer.start();
        informer.wait_synced().await;
        let value: serde_json::Value = informer.store().get("a/x").unwrap().decode().unwrap();
        assert_eq!(value["kind"], "PartialObjectMetadata");
        assert_eq!(value["metadata"]["labels"]["app"], "web");
        assert_eq!(value.get("data"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_again_is_left_alone_until_then() {
    let world = World::new();
    let mut retry_after = Some(99);
    world.judge(move |_| {
        let retry_after = retry_after.take();
        let status = retry_after.map(|_| (429, "TooManyRequests"));
        Misdeed { status, retry_after, ..Misdeed::default() }
    });
    let begun = Instant::now();
    synced(&world, true).await;
    assert_eq!((begun.elapsed().as_secs(), world.asked().len()), (99, 2));
}

/// On a real socket, so without paused time.
#[tokio::test]
async fn where_nobody_listens_the_connection_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let lister_watcher =
        ClientListerWatcher::new(connect_with(config).unwrap(), &Target::of::<ConfigMap>(), None);
    let watched = lister_watcher.watch(WatchRequest::default()).await;
    assert_eq!(watched.err(), Some(WatchFailure::Refused));
    let listed = lister_watcher.list(ListRequest::default()).await;
    assert_eq!(listed.err(), Some(WatchFailure::Refused));
}
