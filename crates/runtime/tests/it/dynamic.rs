//! Watches that begin and end while a controller runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use setpoint::controller::ControllerHandle;
use setpoint::leader_election::LeaderElection;
use setpoint::{
    Action, ClientError, Context, Controller, Key, Manager, ManagerOptions, Query, SetupError, Target, Watch,
};

use crate::controllers::{CONFIG_MAPS, SECRETS, beside, config_map, until};
use crate::fake::Fake;

type Runs = Arc<Mutex<BTreeMap<String, usize>>>;

fn counting(manager: &Manager) -> (ControllerHandle, Runs) {
    let runs = Runs::default();
    let seen = Arc::clone(&runs);
    let target = Target::of::<ConfigMap>().in_namespace("default");
    let handle = Controller::for_target(manager, target)
        .register(move |_: Context, key: Key| {
            *seen.lock().unwrap().entry(key.to_string()).or_default() += 1;
            async { Ok(Action::done()) }
        })
        .unwrap();
    (handle, runs)
}

fn count(runs: &Runs, name: &str) -> usize {
    runs.lock().unwrap().get(name).copied().unwrap_or(0)
}

fn secret(name: &str, owner: Option<&str>) -> serde_json::Value {
    let owners: Vec<_> = owner
        .map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "u", "controller": false}))
        .into_iter()
        .collect();
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_added_to_a_running_controller_and_ends_with_its_guard() {
    let fake = Fake::new();
    fake.put(SECRETS, secret("s", Some("owner")));
    let mut elsewhere = config_map("far", "1");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    fake.put(CONFIG_MAPS, elsewhere.clone());
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (handle, runs) = counting(&manager);
    let client = manager.client();
    beside(&manager, async {
        // Another kind, mapped; the same kind by any owner; another namespace of the controller's own kind.
        let mapped = handle
            .watch(Watch::of_target(Target::of::<Secret>()).map(|secret| vec![Key::cluster(secret.name())]))
            .unwrap();
        let owned = handle.watch(Watch::of_target(Target::of::<Secret>()).by_any_owner()).unwrap();
        let more = handle
            .watch(Watch::of_target(Target::of::<ConfigMap>().in_namespace("elsewhere")).by_self())
            .unwrap();
        until("the secret is mapped", || count(&runs, "s") == 1).await;
        until("its owner is queued", || count(&runs, "default/owner") == 1).await;
        until("the other namespace", || count(&runs, "elsewhere/far") == 1).await;
        assert_eq!(client.list::<Secret>(Query::all()).await.unwrap().len(), 1);
        assert_eq!(client.list::<ConfigMap>(Query::namespace("elsewhere")).await.unwrap().len(), 1);

        drop(mapped);
        fake.put(SECRETS, secret("t", Some("owner")));
        until("the owner again", || count(&runs, "default/owner") == 2).await;
        assert_eq!(count(&runs, "t"), 0, "that watch has ended, the informer goes on for the other");
        drop(owned);
        let refused = |result| matches!(result, Err(ClientError::NoInformer { .. }));
        for _ in 0..1000 {
            if refused(client.list::<Secret>(Query::all()).await.map(drop)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(refused(client.list::<Secret>(Query::all()).await.map(drop)), "nobody holds it any more");
        drop(more);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_stopped_alone_and_its_name_is_free_again() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (first, runs) = counting(&manager);
    beside(&manager, async {
        until("the first run", || count(&runs, "default/a") == 1).await;
        first.stop();
        for _ in 0..1000 {
            if first.watch(Watch::of_target(Target::of::<ConfigMap>()).by_self()).is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(
            first.watch(Watch::of_target(Target::of::<ConfigMap>()).by_self()).unwrap_err(),
            SetupError::Stopped
        );
        let unheld = manager.client().list::<ConfigMap>(Query::all()).await;
        assert!(matches!(unheld, Err(ClientError::NoInformer { .. })), "{unheld:?}");
        fake.put(CONFIG_MAPS, config_map("a", "2"));
        let (_second, again) = counting(&manager);
        until("the second controller of that name", || count(&again, "default/a") == 1).await;
        assert_eq!(count(&runs, "default/a"), 1);
    })
    .await;
}

/// A manager that never leads.
fn standby(fake: &Fake) -> Manager {
    fake.refuse(|_, path| path.contains("/leases").then_some((403, "Forbidden")));
    let election = Some(LeaderElection::new("default", "l"));
    Manager::new(fake.client(), ManagerOptions::with(|options| options.leader_election = election))
}

async fn reads_config_maps(manager: &Manager) -> bool {
    manager.client().list::<ConfigMap>(Query::namespace("default")).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_stopped_though_another_process_leads() {
    let fake = Fake::new();
    let manager = standby(&fake);
    let (before, _) = counting(&manager);
    before.stop();
    before.enqueue(&Key::namespaced("default", "a"));
    assert_eq!(before.queued(), 0, "nobody would take it");
    let (first, _) = counting(&manager);
    beside(&manager, async {
        until("its caches have synced", || manager.informer::<Secret>().has_synced()).await;
        assert!(reads_config_maps(&manager).await);
        first.stop();
        // The manager hears of it at its next turn.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(!reads_config_maps(&manager).await, "nobody holds its informer");
        assert_eq!(
            first.watch(Watch::of_target(Target::of::<ConfigMap>()).by_self()).unwrap_err(),
            SetupError::Stopped
        );
        let (_second, _) = counting(&manager);
    })
    .await;
}

/// It cannot sync, and nobody waits for it any more.
#[tokio::test(start_paused = true)]
async fn a_controller_that_is_stopped_while_its_caches_sync_does_not_end_the_manager() {
    let fake = Fake::new();
    fake.put(SECRETS, secret("s", None));
    fake.refuse(|_, path| path.contains("/api/v1").then_some((403, "Forbidden")));
    let options = ManagerOptions::with(|options| options.cache_sync_timeout = Duration::from_secs(60));
    let manager = Manager::new(fake.client(), options);
    let (handle, _) = counting(&manager);
    let runs = Runs::default();
    let seen = Arc::clone(&runs);
    Controller::for_kind::<Secret>(&manager)
        .cache_sync_timeout(Duration::from_secs(120))
        .register(move |_: Context, key: Key| {
            *seen.lock().unwrap().entry(key.to_string()).or_default() += 1;
            async { Ok(Action::done()) }
        })
        .unwrap();
    beside(&manager, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.stop();
        // Also while the caches of another one do not sync.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let read = manager.client().list::<ConfigMap>(Query::namespace("default")).await;
        assert!(matches!(read, Err(ClientError::NoInformer { .. })), "{:?}", read.err());
        let (again, _) = counting(&manager);
        again.stop();
        fake.refuse(|_, _| None);
        tokio::time::sleep(Duration::from_secs(600)).await;
        until("the other one runs", || count(&runs, "default/s") == 1).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_dropped_before_the_controller_runs_ends_its_informer() {
    let fake = Fake::new();
    let manager = standby(&fake);
    let (handle, _) = counting(&manager);
    let held = async || manager.client().list::<Secret>(Query::all()).await.is_ok();
    beside(&manager, async {
        let watch = handle.watch(Watch::of_target(Target::of::<Secret>()).map(|_| Vec::new())).unwrap();
        assert!(held().await);
        drop(watch);
        assert!(!held().await);
    })
    .await;
}
