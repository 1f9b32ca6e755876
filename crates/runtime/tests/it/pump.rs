//! A controller in the style of client-go's own, by hand: reflector, queue, processing.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::{
    ClientListerWatcher, Delta, DeltaQueue, Pump, Random, Reflector, ReflectorOptions, Scope, Store, Target,
};

use crate::world::World;

fn pump(world: &World) -> Pump {
    let lister_watcher = ClientListerWatcher::new(world.client(), &Target::of::<ConfigMap>(), None);
    let random = Random::from_seed(1);
    let reflector = Reflector::new(Arc::new(lister_watcher), ReflectorOptions::default(), random.clone());
    Pump::new(reflector, random)
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
async fn a_full_resync_comes_by_its_period_and_up_to_a_tenth_late() {
    let world = World::new();
    let pump = pump(&world).full_resync(Duration::from_secs(100));
    let begun = tokio::time::Instant::now();
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
