//! Controllers from event to write, over a fake server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::api::ObjectMeta;
use serde_json::json;
use setpoint::client::set_controller_reference;
use setpoint::finalizer::Lifecycle;
use setpoint::manager::ManagerError;
use setpoint::metrics::Metrics;
use setpoint::{
    Action, Context, Controller, Error, Key, Manager, ManagerOptions, Patch, SetupError, Target, Watch,
    predicate,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fake::Fake;

pub const CONFIG_MAPS: &str = "api/v1/configmaps";
pub const SECRETS: &str = "api/v1/secrets";

pub fn config_map(name: &str, data: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": data}})
}

/// Runs a manager beside a test until the test's future ends. No reconcile may panic: an assertion within one would only
/// be tried again.
pub async fn beside<T>(manager: &Manager, test: impl Future<Output = T>) -> T {
    let result = beside_panics(manager, test).await;
    let metrics = manager.metrics().encode();
    let panics =
        metrics.lines().filter(|line| line.starts_with("controller_runtime_reconcile_panics_total{"));
    panics.for_each(|line| assert!(line.ends_with(" 0"), "an assertion in a reconcile failed: {line}"));
    result
}

/// Says how many seconds it took.
pub async fn timed<T>(what: impl Future<Output = T>) -> (T, u64) {
    let began = Instant::now();
    let result = what.await;
    (result, began.elapsed().as_secs())
}

/// As [`beside`], where reconciles are meant to panic.
pub async fn beside_panics<T>(manager: &Manager, test: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    let running = manager.run(stop.clone().cancelled_owned());
    tokio::pin!(running);
    let result = tokio::select! {
        biased;
        ended = &mut running => panic!("the manager ended early: {ended:?}"),
        result = test => result,
    };
    stop.cancel();
    running.await.expect("the manager stops cleanly");
    result
}

/// Waits for a condition, in virtual time.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("never came true: {what}");
}

fn child_of(owner: &ConfigMap) -> Result<Secret, Error> {
    let metadata = ObjectMeta {
        name: owner.metadata.name.clone(),
        namespace: Some("default".into()),
        ..ObjectMeta::default()
    };
    let data = owner.data.clone().unwrap_or_default();
    let mut child = Secret { metadata, string_data: Some(data), ..Secret::default() };
    set_controller_reference(owner, &mut child)?;
    Ok(child)
}

async fn copy(ctx: Context, key: Key) -> Result<Action, Error> {
    let Some(owner) = ctx.client().get::<ConfigMap>(&key).await? else { return Ok(Action::done()) };
    if ctx.client().get::<Secret>(&key).await?.is_none() {
        ctx.client().create(&child_of(&owner)?).await?;
    }
    Ok(Action::done())
}

#[tokio::test(start_paused = true)]
async fn an_object_gets_its_child_and_gets_it_back_when_it_is_deleted() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("before", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    Controller::for_kind::<ConfigMap>(&manager).owns::<Secret>().register(copy).unwrap();
    beside(&manager, async {
        until("the child of the object that was there", || fake.get(SECRETS, "default", "before").is_some())
            .await;
        fake.put(CONFIG_MAPS, config_map("after", "2"));
        until("the child of the new object", || fake.get(SECRETS, "default", "after").is_some()).await;
        let first = fake.get(SECRETS, "default", "after").unwrap();
        assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "ConfigMap");
        fake.remove(SECRETS, "default", "after");
        until("the child is made anew", || fake.get(SECRETS, "default", "after").is_some()).await;
        let second = fake.get(SECRETS, "default", "after").unwrap();
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    })
    .await;
    assert_eq!(fake.writes().len(), 3);
    assert!(fake.reconcile_ids().iter().all(Option::is_some));
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_success_forgets_them() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let attempts: Arc<Mutex<Vec<(u32, String)>>> = Arc::default();
    let seen = Arc::clone(&attempts);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |ctx: Context, _: Key| {
            let seen = Arc::clone(&seen);
            async move {
                let run = {
                    let mut seen = seen.lock().unwrap();
                    seen.push((ctx.attempt(), ctx.reasons().to_string()));
                    seen.len()
                };
                match run {
                    1 => Err(Error::msg("first")),
                    2 => panic!("second"),
                    3 => Ok(Action::requeue_after(Duration::from_secs(60))),
                    _ => Ok(Action::done()),
                }
            }
        })
        .unwrap();
    let handle_seen = Arc::clone(&attempts);
    beside_panics(&manager, async {
        until("four runs", || handle_seen.lock().unwrap().len() == 4).await;
    })
    .await;
    let expected = [(1, "ConfigMap initial"), (2, "error"), (3, "panic"), (1, "requeue-after")];
    let attempts = attempts.lock().unwrap();
    assert_eq!(attempts.iter().map(|(n, why)| (*n, why.as_str())).collect::<Vec<_>>(), expected);
    let metrics = manager.metrics().encode();
    for line in [
        r#"controller_runtime_reconcile_total{controller="configmap",result="error"} 2"#,
        r#"controller_runtime_reconcile_total{controller="configmap",result="requeue_after"} 1"#,
        r#"controller_runtime_reconcile_panics_total{controller="configmap"} 1"#,
        r#"workqueue_adds_total{name="configmap",controller="configmap"} 4"#,
        // As client-go counts: two failures, and one that asked to come again later.
        r#"workqueue_retries_total{name="configmap",controller="configmap"} 3"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_is_not_retried_until_the_object_changes() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Err(Error::terminal("impossible")) }
        })
        .unwrap();
    beside(&manager, async {
        until("the first run", || runs.load(Ordering::SeqCst) == 1).await;
        tokio::time::sleep(Duration::from_secs(3000)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        fake.put(CONFIG_MAPS, config_map("a", "2"));
        until("the second run", || runs.load(Ordering::SeqCst) == 2).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_running_reconcile_is_finished_when_the_manager_stops() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (started, mut begun) = mpsc::channel(1);
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            let (started, counted) = (started.clone(), Arc::clone(&counted));
            async move {
                started.send(()).await.unwrap();
                tokio::time::sleep(Duration::from_secs(20)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async { begun.recv().await.unwrap() }).await;
    assert_eq!(finished.load(Ordering::SeqCst), 1);
    assert!(matches!(manager.run(std::future::pending()).await, Err(ManagerError::RanBefore)));
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_ignores_the_grace_period_is_named() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let options = ManagerOptions::with(|options| options.grace_period = Duration::from_secs(5));
    let manager = Manager::new(fake.client(), options);
    let (started, mut begun) = mpsc::channel(1);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            let started = started.clone();
            async move {
                started.send(()).await.unwrap();
                std::future::pending().await
            }
        })
        .unwrap();
    let ended = manager.run(async { begun.recv().await.unwrap() }).await;
    assert!(matches!(ended, Err(ManagerError::Grace(name)) if name == "configmap"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reconcile_times_out_and_is_tried_again() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .reconcile_timeout(Duration::from_secs(7))
        .register(move |_: Context, _: Key| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if run == 0 {
                    std::future::pending::<()>().await;
                }
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("the second run", || runs.load(Ordering::SeqCst) == 2)).await;
    assert!(
        manager
            .metrics()
            .encode()
            .contains("controller_runtime_reconcile_timeouts_total{controller=\"configmap\"} 1")
    );
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_guards_the_life_of_an_object() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let cleaned = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cleaned);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |ctx: Context, key: Key| {
            let counted = Arc::clone(&counted);
            async move {
                let client = ctx.client().clone();
                let on_delete = |_: Arc<ConfigMap>| async move {
                    // It tells how far it is, and others write to the object too.
                    let run = counted.fetch_add(1, Ordering::SeqCst).to_string();
                    let told = Patch::Merge(json!({"metadata": {"annotations": {"cleaned": run}}}));
                    client.patch::<ConfigMap>(("default", "a"), &told).await?;
                    Ok(())
                };
                let life = ctx.client().lifecycle::<ConfigMap>(&key, "example.org/x", on_delete).await?;
                if let Lifecycle::Alive(object) = life {
                    assert!(setpoint::finalizer::has_finalizer(&*object, "example.org/x"));
                }
                Ok(Action::done())
            }
        })
        .unwrap();
    let deleter = manager.client();
    beside(&manager, async {
        let guarded = || {
            fake.get(CONFIG_MAPS, "default", "a")
                .is_some_and(|a| a["metadata"]["finalizers"][0] == "example.org/x")
        };
        until("the finalizer", guarded).await;
        deleter.delete::<ConfigMap>(("default", "a")).await.unwrap();
        until("the object is gone", || fake.get(CONFIG_MAPS, "default", "a").is_none()).await;
    })
    .await;
    assert_eq!(cleaned.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_with_words() {
    let manager = Manager::new(Fake::new().client(), ManagerOptions::default());
    let nothing = |_: Context, _: Key| async { Ok(Action::done()) };
    Controller::for_kind::<ConfigMap>(&manager).register(nothing).unwrap();
    let error = Controller::for_kind::<ConfigMap>(&manager).register(nothing).unwrap_err();
    assert_eq!(error, SetupError::NameTaken("configmap".into()));
    let error = Controller::new(&manager, "x").owns::<Secret>().register(nothing).unwrap_err();
    assert_eq!(error, SetupError::NoKind("x".into()));
    let error = Controller::new(&manager, "y").register(nothing).unwrap_err();
    assert_eq!(error, SetupError::NoSource("y".into()));
    let watch = || Watch::of::<Secret>().map(|_| Vec::new());
    let filtered =
        Controller::new(&manager, "z").with_predicate(predicate::labels_changed()).watches(watch());
    assert_eq!(filtered.register(nothing).unwrap_err(), SetupError::NoKind("z".into()));
    // A refused controller took no name.
    Controller::new(&manager, "z").watches(watch()).register(nothing).unwrap();
    for target in
        [Target::of::<Secret>().labels("app in (web"), Target::of::<Secret>().in_namespaces_labelled("a=b=c")]
    {
        let declared = Controller::for_kind::<Node>(&manager).reads_target(target);
        let error = declared.register(nothing).unwrap_err();
        assert!(matches!(&error, SetupError::Selector { controller, .. } if controller == "node"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_managers_share_their_metrics() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let metrics = Metrics::new();
    let options = || ManagerOptions::with(|options| options.metrics = Some(metrics.clone()));
    let (first, second) = (Manager::new(fake.client(), options()), Manager::new(fake.client(), options()));
    for manager in [&first, &second] {
        manager.informer::<ConfigMap>();
    }
    second.informer::<Secret>();
    let text = beside(
        &first,
        Box::pin(beside(&second, async {
            for manager in [&first, &second] {
                manager.informer::<ConfigMap>().wait_synced().await;
            }
            metrics.encode()
        })),
    )
    .await;
    for once in [
        "# TYPE setpoint_cache_objects gauge",
        "# TYPE informer_processing_latency_seconds histogram",
        r#"setpoint_cache_objects{name="",group="",version="v1",resource="configmaps"} 1"#,
        r#"setpoint_informer_watches_total{name="",group="",version="v1",resource="configmaps"} 2"#,
        r#"setpoint_informer_watches_total{name="",group="",version="v1",resource="secrets"} 1"#,
    ] {
        assert_eq!(text.matches(once).count(), 1, "{once} in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_is_given_up_is_counted_as_an_error() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.refuse(|method, _| (*method == http::Method::POST).then_some((409, "Conflict")));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    Controller::for_kind::<ConfigMap>(&manager)
        .register(async |ctx: Context, _: Key| {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some("s".into()),
                    namespace: Some("default".into()),
                    ..ObjectMeta::default()
                },
                ..Secret::default()
            };
            let refused = ctx.client().create(&secret).await.unwrap_err();
            Err(Error::terminal(refused))
        })
        .unwrap();
    let counted = r#"controller_runtime_terminal_reconcile_errors_total{controller="configmap"} 1"#;
    beside(&manager, until("it is given up", || manager.metrics().encode().contains(counted))).await;
    let metrics = manager.metrics().encode();
    assert!(metrics.contains(r#"setpoint_reconcile_conflicts_total{controller="configmap"} 0"#), "{metrics}");
    assert!(
        metrics.contains(r#"controller_runtime_reconcile_errors_total{controller="configmap"} 1"#),
        "{metrics}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_conflict_is_retried_quietly() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let refusals = AtomicUsize::new(2);
    fake.refuse(move |method, _| {
        let refuse = *method == http::Method::POST
            && refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        refuse.then_some((409, "Conflict"))
    });
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    Controller::for_kind::<ConfigMap>(&manager).owns::<Secret>().register(copy).unwrap();
    beside(&manager, until("the child", || fake.get(SECRETS, "default", "a").is_some())).await;
    let metrics = manager.metrics().encode();
    assert!(
        metrics.contains(r#"controller_runtime_reconcile_errors_total{controller="configmap"} 0"#),
        "{metrics}"
    );
    assert!(metrics.contains(r#"setpoint_reconcile_conflicts_total{controller="configmap"} 2"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn metrics_carry_the_names_of_go_and_the_missing_ones() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    Controller::for_kind::<ConfigMap>(&manager).owns::<Secret>().register(copy).unwrap();
    let text = beside(&manager, async {
        until("the child", || fake.get(SECRETS, "default", "a").is_some()).await;
        manager.metrics().encode()
    })
    .await;
    for name in [
        "controller_runtime_reconcile_total{",
        "controller_runtime_reconcile_errors_total{",
        "controller_runtime_terminal_reconcile_errors_total{",
        "controller_runtime_reconcile_time_seconds_bucket{",
        r#"controller_runtime_max_concurrent_reconciles{controller="configmap"} 4"#,
        "controller_runtime_active_workers{",
        r#"workqueue_depth{name="configmap",controller="configmap",priority="-100"}"#,
        "workqueue_adds_total{",
        "workqueue_queue_duration_seconds_bucket{",
        "workqueue_work_duration_seconds_sum{",
        "workqueue_unfinished_work_seconds{",
        "workqueue_longest_running_processor_seconds{",
        r#"rest_client_requests_total{code="201",host="",method="POST"} 1"#,
        r#"rest_client_requests_total{code="200",host="",method="GET"} 2"#,
        r#"setpoint_cache_objects{name="",group="",version="v1",resource="configmaps"} 1"#,
        "setpoint_cache_bytes{",
        "setpoint_informer_watches_total{",
        "setpoint_informer_watch_errors_total{",
        "setpoint_informer_handler_lag{",
        "setpoint_informer_silence_seconds{",
        "informer_store_resource_version{",
        "informer_processing_latency_seconds_bucket{",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
}
