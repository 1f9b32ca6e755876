//! A controller in the style of client-go's own, by hand: reflector, queue, processing.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use setpoint::Target;
use setpoint::clock::Random;
use setpoint::informer::{
    CacheSync, ClientListerWatcher, Delta, DeltaQueue, FieldOwners, ObjectOptions, Pump, Reflector,
    ReflectorOptions, Scope, Store, SubscribeOptions, remove_paths, wait_for_cache_sync,
};
use tokio::time::Instant;

use crate::misdeed::Misdeed;
use crate::world::World;

fn reflector(world: &World) -> Reflector {
    let lister_watcher = ClientListerWatcher::new(world.client(), &Target::of::<ConfigMap>(), None);
    Reflector::new(Arc::new(lister_watcher), ReflectorOptions::default(), Random::from_seed(1))
}

fn pump(world: &World) -> Pump {
    Pump::new(reflector(world), Random::from_seed(1))
}

#[tokio::test(start_paused = true)]
async fn deltas_are_processed_in_order_until_it_is_stopped() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let pump = pump(&world);
    let store = Store::default();
    let told = RefCell::new(Vec::new());
    assert!(!pump.has_synced());
    let run = pump.run(|deltas| {
        for delta in deltas {
            let word = match &delta {
                Delta::Added(object) => format!("+{}", object.key()),
                Delta::Updated(object) => format!("~{}", object.key()),
                Delta::Deleted(object) => format!("-{}", object.key()),
                Delta::Replaced { objects, .. } => format!("={}", objects.len()),
                Delta::Sync => "sync".to_owned(),
                Delta::Bookmark { .. } => "bookmark".to_owned(),
            };
            told.borrow_mut().push(word);
            store.apply(&Scope::All, delta);
        }
    });
    let drive = async {
        store.wait_until(None, 0).await;
        while !pump.has_synced() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(pump.last_sync_resource_version().as_deref(), Some("11"));
        world.put("a", "x", &json!({"value": "1"}));
        world.put("a", "y", &json!({}));
        world.delete("a", "x");
        store.wait_until(None, world.revision()).await;
        assert_eq!(pump.last_sync_resource_version(), Some(world.revision().to_string()));
        tokio::time::sleep(Duration::from_secs(61)).await;
        pump.stop();
    };
    tokio::join!(run, drive);
    assert_eq!(*told.borrow(), ["=1", "~a/x", "+a/y", "-a/x", "bookmark"]);
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_is_waited_for_together_with_informers_and_handlers() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let (pump, stopped) = (pump(&world), pump(&world));
    let informer = crate::informers::factory(&world).informer(Target::of::<ConfigMap>());
    let handler = informer.add_handler(&SubscribeOptions::default(), |_| {});
    informer.start();
    let processed = RefCell::new(false);
    let run = pump.run(|deltas| {
        deltas.for_each(drop);
        processed.replace(true);
    });
    let wait = async {
        let caches: [&dyn CacheSync; 3] = [&informer, &handler, &pump];
        assert!(wait_for_cache_sync(&caches).await);
        assert!(informer.has_synced() && handler.has_synced() && pump.has_synced());
        assert!(*processed.borrow(), "the first state was processed, not merely received");
        stopped.stop();
        let run = stopped.run(|deltas| deltas.for_each(drop));
        let pumps = [&pump, &stopped];
        let ((), synced) = tokio::join!(run, wait_for_cache_sync(&pumps));
        assert!(!synced, "the other one never will");
        pump.stop();
    };
    let both = async { tokio::join!(run, wait) };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_resync_comes_by_its_period_and_up_to_a_tenth_late() {
    let world = World::new();
    let pump = pump(&world).full_resync(Duration::from_secs(100));
    let begun = Instant::now();
    let times = RefCell::new(Vec::new());
    let run = pump.run(|deltas| {
        times
            .borrow_mut()
            .extend(deltas.filter(|delta| matches!(delta, Delta::Sync)).map(|_| begun.elapsed()));
    });
    let stop = async {
        tokio::time::sleep(Duration::from_secs(250)).await;
        pump.stop();
    };
    tokio::join!(run, stop);
    let times: Vec<u64> = times.borrow().iter().map(Duration::as_secs).collect();
    let [first, second] = times[..] else { panic!("{times:?}") };
    assert!((100..=110).contains(&first) && (200..=220).contains(&second), "{times:?}");
    assert_eq!(world.asked().len(), 1, "a resync does not ask the server");
}

#[tokio::test(start_paused = true)]
async fn a_full_resync_tells_handlers_each_object_again() {
    let world = World::new();
    world.put("a", "x", &json!({}));
    let pump = pump(&world).full_resync(Duration::from_secs(100));
    let store = Store::default();
    let told = RefCell::new(Vec::new());
    let run = pump.run(|deltas| {
        let mut events = Vec::new();
        store.apply_all(&Scope::All, deltas, &mut events);
        told.borrow_mut().extend(events.iter().map(|event| (event.key().to_string(), event.is_resync())));
    });
    let stop = async {
        tokio::time::sleep(Duration::from_secs(150)).await;
        pump.stop();
    };
    tokio::join!(run, stop);
    assert_eq!(*told.borrow(), [("a/x".to_owned(), false), ("a/x".to_owned(), true)]);
}

#[tokio::test(start_paused = true)]
async fn objects_are_kept_as_the_options_say_however_they_come() {
    let world = World::new();
    world.put("a", "x", &json!({"value": "1"}));
    let mut kept = Vec::new();
    for watch_list in [true, false] {
        let lister_watcher = ClientListerWatcher::new(world.client(), &Target::of::<ConfigMap>(), None);
        let options = ReflectorOptions::with(|options| options.watch_list = watch_list);
        let field_owners = FieldOwners::default();
        field_owners.add("mine");
        let objects = ObjectOptions::with(|options| {
            (options.field_owners, options.transform) = (field_owners, Some(remove_paths(["data"])));
        });
        let reflector =
            Reflector::new(Arc::new(lister_watcher), options, Random::from_seed(1)).objects(objects);
        let metrics = reflector.metrics();
        let (store, queue) = (Store::default(), DeltaQueue::default());
        let process = async {
            queue.pop(|deltas| store.apply_all(&Scope::All, deltas, &mut Vec::new())).await;
            queue.close();
        };
        tokio::join!(reflector.run(&queue), process);
        assert_eq!(metrics.lists.get(), u64::from(!watch_list));
        let object = store.get("a/x").unwrap();
        assert_eq!(object.managed_fields().len(), 1);
        kept.push(object.decode::<Value>().unwrap());
    }
    assert_eq!(kept[0], kept[1]);
    assert_eq!((&kept[0]["kind"], &kept[0]["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(kept[0].get("data"), None);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_ends_with_its_queue_whatever_it_does() {
    let silent = || Misdeed { silent: true, ..Misdeed::default() };
    let busy =
        || Misdeed { status: Some((429, "TooManyRequests")), retry_after: Some(99), ..Misdeed::default() };
    // It reads a watch, waits for an answer, backs off.
    for misdeed in [Misdeed::default(), silent(), busy()] {
        let world = World::new();
        world.judge(move |_| misdeed.clone());
        let (queue, begun) = (DeltaQueue::default(), Instant::now());
        let close = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            queue.close();
        };
        tokio::join!(reflector(&world).run(&queue), close);
        assert_eq!(begun.elapsed().as_secs(), 5);
        assert_eq!((world.asked().len(), world.open_watches()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_pushes_waits_while_too_many_deltas_wait() {
    let queue = DeltaQueue::default();
    let push = async {
        for revision in 1..=5000 {
            queue.push([Delta::Bookmark { revision }]).await;
        }
        queue.close();
    };
    let mut seen = Vec::new();
    let pop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(queue.len(), 4096);
        while queue.pop(|deltas| seen.extend(deltas.map(|delta| delta.revision()))).await {}
    };
    tokio::join!(push, pop);
    assert_eq!(seen, (1..=5000).collect::<Vec<u64>>());
    assert!(!queue.has_synced());
}
