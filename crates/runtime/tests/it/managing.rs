//! The order in which a manager starts and stops, and what it refuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use setpoint::informer::{InformerOptions, remove_paths};
use setpoint::leader_election::LeaderElection;
use setpoint::manager::ManagerError;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, SetupError};
use tokio_util::sync::CancellationToken;

use crate::controllers::{CONFIG_MAPS, beside, config_map, until};
use crate::fake::Fake;
use crate::world::World;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, line: &str) {
    log.lock().unwrap().push(line.to_owned());
}

/// Work that takes a second to stop.
async fn work(log: Log, name: &'static str, ready: bool, stopping: CancellationToken) -> Result<(), Error> {
    note(&log, &format!("{name} starts, caches synced: {ready}"));
    stopping.cancelled().await;
    note(&log, &format!("{name} is told to stop"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    note(&log, &format!("{name} has stopped"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn work_starts_after_the_caches_and_stops_in_reverse_before_them() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let options = ManagerOptions::with(|options| {
        options.leader_election = Some(LeaderElection::new("default", "l").identity("me"))
    });
    let manager = Manager::new(fake.client(), options);
    let informer = manager.informer::<ConfigMap>();
    let log = Log::default();
    let (synced, told) = (informer.clone(), Arc::clone(&log));
    manager.add("leading", move |stopping| work(told, "leading", synced.has_synced(), stopping)).unwrap();
    let (synced, told) = (informer.clone(), Arc::clone(&log));
    manager
        .add_always("always", move |stopping| work(told, "always", synced.has_synced(), stopping))
        .unwrap();
    beside(&manager, until("both run", || log.lock().unwrap().len() == 2)).await;
    assert_eq!(
        *log.lock().unwrap(),
        [
            "always starts, caches synced: true",
            "leading starts, caches synced: true",
            "leading is told to stop",
            "leading has stopped",
            "always is told to stop",
            "always has stopped",
        ]
    );
    let lease = fake.get("apis/coordination.k8s.io/v1/leases", "default", "l").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "released at the end");
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_the_manager_stops_is_refused() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    let (of_work, told) = (manager.clone(), Arc::new(Mutex::new(None)));
    let tells = Arc::clone(&told);
    let late = move |stopping: CancellationToken| async move {
        stopping.cancelled().await;
        *tells.lock().unwrap() = Some(of_work.add("late", |_| async { Ok(()) }));
        Ok(())
    };
    manager.add("work", late).unwrap();
    beside(&manager, tokio::time::sleep(Duration::from_secs(1))).await;
    assert_eq!(*told.lock().unwrap(), Some(Err(SetupError::Stopped)));
}

/// Work that hangs takes the whole grace period, and not that of the others.
#[tokio::test(start_paused = true)]
async fn work_beside_what_hangs_has_time_to_stop() {
    let options = ManagerOptions::with(|options| options.grace_period = Duration::from_secs(10));
    let manager = Manager::new(Fake::new().client(), options);
    let log = Log::default();
    manager.add("hangs", |_| std::future::pending()).unwrap();
    let told = Arc::clone(&log);
    manager.add_always("orderly", move |stopping| work(told, "orderly", true, stopping)).unwrap();
    let stop = CancellationToken::new();
    let (ended, ()) = tokio::join!(manager.run(stop.clone().cancelled_owned()), async {
        until("it runs", || log.lock().unwrap().len() == 1).await;
        stop.cancel();
    });
    assert!(matches!(&ended, Err(ManagerError::Grace(names)) if names == "hangs"), "{ended:?}");
    assert_eq!(log.lock().unwrap().last().unwrap(), "orderly has stopped");
}

#[tokio::test(start_paused = true)]
async fn a_resync_without_an_end_is_none() {
    for _ in 0..20 {
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "1"));
        let options = ManagerOptions::with(|options| options.resync = Some(Duration::MAX));
        let manager = Manager::new(fake.client(), options);
        let log = Log::default();
        let told = Arc::clone(&log);
        Controller::for_kind::<ConfigMap>(&manager)
            .register(move |_: Context, _: Key| {
                note(&told, "run");
                async { Ok(Action::done()) }
            })
            .unwrap();
        beside(&manager, tokio::time::sleep(Duration::from_secs(24 * 3600))).await;
        assert_eq!(*log.lock().unwrap(), ["run"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_forgotten_is_watched_until_nobody_wants_it() {
    for whole_first in [true, false] {
        let world = World::new();
        world.put("default", "x", &json!({}));
        let manager = Manager::new(world.client(), ManagerOptions::default());
        let whole = manager.target::<ConfigMap>();
        let metadata = whole.clone().metadata_only();
        let resource = whole.resource.clone();
        let mut targets = [metadata, whole];
        if whole_first {
            targets.reverse();
        }
        for target in &targets {
            manager.informer_of(target.clone());
        }
        beside(&manager, async {
            let client = manager.client();
            until("the watch is open", || world.open_watches() == 1).await;
            for target in &targets {
                let read = client.get_object(&resource, ("default", "x")).await;
                assert!(read.unwrap().is_some(), "whole first: {whole_first}");
                manager.forget(target);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(world.open_watches(), 0, "whole first: {whole_first}");
            // The same for what a holder shared.
            let held = manager.hold(targets[0].clone());
            let shared = manager.hold(manager.target::<ConfigMap>());
            manager.informer_of(targets[1].clone());
            manager.forget(&targets[1]);
            held.wait_synced().await;
            assert!(client.get_object(&resource, ("default", "x")).await.unwrap().is_some());
            drop((held, shared));
            until("no watch is open", || world.open_watches() == 0).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_runs_on_a_task_of_any_runtime() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    let (stop, mut tasks) = (CancellationToken::new(), tokio::task::JoinSet::new());
    let stopped = stop.clone().cancelled_owned();
    // Compiles only while the future is Send.
    tasks.spawn(async move { manager.run(stopped).await });
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_any_work_stops_the_manager_and_is_named() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    manager.add("broken", |_| async { Err(Error::msg("no bread")) }).unwrap();
    let ended = manager.run(std::future::pending()).await.unwrap_err();
    assert_eq!(ended.to_string(), "broken: no bread");
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_before_it_begins_is_named_and_the_rest_stops_in_order() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    let log = Log::default();
    let told = Arc::clone(&log);
    manager.add_always("sound", move |stopping| work(told, "sound", true, stopping)).unwrap();
    let broken = |_| -> std::future::Ready<Result<(), Error>> { panic!("no bread") };
    manager.add("broken", broken).unwrap();
    let ended = manager.run(std::future::pending()).await.unwrap_err();
    let ManagerError::Failed { name, message } = &ended else { panic!("{ended}") };
    assert!(name == "broken" && message.contains("no bread"), "{ended}");
    assert_eq!(log.lock().unwrap().last().unwrap(), "sound has stopped");
}

#[tokio::test(start_paused = true)]
async fn caches_that_never_sync_end_the_manager_with_their_names() {
    let fake = Fake::new();
    fake.refuse(|method, path| {
        (*method == http::Method::GET && path.ends_with("configmaps")).then_some((403, "Forbidden"))
    });
    let options = ManagerOptions::with(|options| options.cache_sync_timeout = Duration::from_secs(60));
    let manager = Manager::new(fake.client(), options);
    manager.informer::<ConfigMap>();
    let began = tokio::time::Instant::now();
    let ended = manager.run(std::future::pending()).await.unwrap_err();
    let ManagerError::CacheSync { kinds, .. } = &ended else { panic!("{ended}") };
    assert!(kinds.starts_with("ConfigMap (the server answered 403 Forbidden: "), "{ended}");
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_comes_later_has_its_own_deadline_for_its_caches() {
    let fake = Fake::new();
    fake.refuse(|method, path| {
        (*method == http::Method::GET && path.ends_with("configmaps")).then_some((403, "Forbidden"))
    });
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let late = manager.clone();
    let register = async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Controller::for_kind::<ConfigMap>(&late)
            .cache_sync_timeout(Duration::from_secs(20))
            .register(|_: Context, _: Key| async { Ok(Action::done()) })
            .unwrap();
        std::future::pending::<()>().await;
    };
    let ended = manager.run(register).await.unwrap_err();
    let text = ended.to_string();
    let begin = "configmap: controller configmap: caches of ConfigMap (the server answered 403 Forbidden: ";
    assert!(text.starts_with(begin) && text.ends_with(") did not sync within 20s"), "{text}");
}

/// How long a manager that waits a minute runs with a controller that says so much of its caches, which never sync.
async fn gives_up_after(timeout: Option<Duration>) -> Duration {
    let fake = Fake::new();
    fake.refuse(|method, path| {
        (*method == http::Method::GET && path.ends_with("configmaps")).then_some((403, "Forbidden"))
    });
    let options = ManagerOptions::with(|options| options.cache_sync_timeout = Duration::from_secs(60));
    let manager = Manager::new(fake.client(), options);
    // Synced at once, and not to be waited for any longer.
    manager.informer::<Secret>();
    let controller = Controller::for_kind::<ConfigMap>(&manager).reads::<Secret>();
    let controller = match timeout {
        Some(timeout) => controller.cache_sync_timeout(timeout),
        None => controller,
    };
    controller.register(|_: Context, _: Key| async { Ok(Action::done()) }).unwrap();
    let began = tokio::time::Instant::now();
    let ended = manager.run(std::future::pending()).await.unwrap_err();
    let ManagerError::CacheSync { kinds, after } = &ended else { panic!("{ended}") };
    assert!(kinds.starts_with("ConfigMap (") && !kinds.contains("Secret"), "{ended}");
    assert_eq!(after.as_secs(), began.elapsed().as_secs());
    *after
}

#[tokio::test(start_paused = true)]
async fn a_controller_says_how_long_its_caches_may_take() {
    for seconds in [5, 600] {
        let timeout = Duration::from_secs(seconds);
        assert_eq!(gives_up_after(Some(timeout)).await, timeout);
    }
    assert_eq!(gives_up_after(None).await, Duration::from_secs(60), "what the manager says, otherwise");
}

#[tokio::test(start_paused = true)]
async fn every_object_is_queued_again_within_ten_percent_of_ten_hours() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let began = tokio::time::Instant::now();
    let log: Arc<Mutex<Vec<(f64, String)>>> = Arc::default();
    let seen = Arc::clone(&log);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |ctx: Context, _: Key| {
            let hours = began.elapsed().as_secs_f64() / 3600.0;
            seen.lock().unwrap().push((hours, ctx.reasons().to_string()));
            async { Ok(Action::done()) }
        })
        .unwrap();
    beside(&manager, tokio::time::sleep(Duration::from_secs(24 * 3600))).await;
    let log = log.lock().unwrap();
    assert_eq!((log.len(), log[0].1.as_str()), (3, "ConfigMap initial"), "{log:?}");
    let resyncs = &log[1..];
    assert!(resyncs.iter().all(|(_, why)| why == "ConfigMap resync"), "{log:?}");
    assert!((9.0..=11.0).contains(&resyncs[0].0) && (18.0..=22.0).contains(&resyncs[1].0), "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn controllers_share_what_a_transform_left() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let options = InformerOptions::with(|options| options.transform = Some(remove_paths(["data"])));
    manager.informer_with(manager.target::<ConfigMap>(), &options);
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let noted = Arc::clone(&seen);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |ctx: Context, key: Key| {
            let noted = Arc::clone(&noted);
            async move {
                let object = ctx.client().get::<ConfigMap>(&key).await?;
                noted.lock().unwrap().push(object.unwrap().data.is_some());
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("a run", || !seen.lock().unwrap().is_empty())).await;
    assert_eq!(*seen.lock().unwrap(), [false]);
}
