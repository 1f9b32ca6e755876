//! The workers of a controller: how many there are, and what they survive.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::controller::DEFAULT_CONCURRENCY;
use setpoint::manager::ManagerError;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, Reconciler};
use tokio::time::Instant;

use crate::controllers::{CONFIG_MAPS, beside, beside_panics, config_map, until};
use crate::fake::Fake;

/// A future that panics when it is dropped, and before that when it is polled if it is told to.
struct Spiteful {
    when_polled: bool,
}

impl Future for Spiteful {
    type Output = Result<Action, Error>;

    fn poll(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        assert!(!self.when_polled, "polled");
        Poll::Pending
    }
}

impl Drop for Spiteful {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// Panics in another way at each of its first runs.
#[derive(Default)]
struct Clumsy {
    reasons: Arc<Mutex<Vec<String>>>,
}

impl Reconciler for Clumsy {
    fn reconcile(&self, ctx: &Context, _: Key) -> impl Future<Output = Result<Action, Error>> + Send {
        let run = {
            let mut reasons = self.reasons.lock().unwrap();
            reasons.push(ctx.reasons().to_string());
            reasons.len()
        };
        assert!(run != 1, "before there is a future");
        let future: Pin<Box<dyn Future<Output = Result<Action, Error>> + Send>> = match run {
            2 => Box::pin(Spiteful { when_polled: false }),
            3 => Box::pin(Spiteful { when_polled: true }),
            _ => Box::pin(async { Ok(Action::done()) }),
        };
        future
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_caught_wherever_the_code_of_an_author_runs() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let clumsy = Clumsy::default();
    let reasons = Arc::clone(&clumsy.reasons);
    Controller::for_kind::<ConfigMap>(&manager)
        .concurrency(1)
        .reconcile_timeout(Duration::from_secs(7))
        .register(clumsy)
        .unwrap();
    beside_panics(&manager, until("the fourth run", || reasons.lock().unwrap().len() == 4)).await;
    assert_eq!(*reasons.lock().unwrap(), ["ConfigMap initial", "panic", "panic", "panic"]);
    let metrics = manager.metrics().encode();
    for line in [
        r#"controller_runtime_reconcile_panics_total{controller="configmap"} 3"#,
        r#"controller_runtime_active_workers{controller="configmap"} 0"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}

/// An error that cannot even be looked at.
#[derive(Debug)]
struct Untouchable;

impl fmt::Display for Untouchable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("untouchable")
    }
}

impl std::error::Error for Untouchable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        panic!("touched");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_whose_worker_died_ends_the_manager_and_is_named() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.put(CONFIG_MAPS, config_map("b", "1"));
    // No end of the grace period, and no clock that would not count as far.
    let options = ManagerOptions::with(|options| options.grace_period = Duration::MAX);
    let manager = Manager::new(fake.client(), options);
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    Controller::for_kind::<ConfigMap>(&manager)
        .concurrency(2)
        .register(move |_: Context, key: Key| {
            let counted = Arc::clone(&counted);
            async move {
                if key.name() == "a" {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    return Err(Untouchable.into());
                }
                tokio::time::sleep(Duration::from_secs(10)).await;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), manager.run(std::future::pending())).await;
    let Ok(Err(error @ ManagerError::Failed { .. })) = ended else { panic!("{ended:?}") };
    assert_eq!(error.to_string(), "configmap: controller configmap: a worker panicked: touched");
    assert_eq!(finished.load(Ordering::SeqCst), 1, "its sibling finished what it was at");
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_and_failures_wait_each_for_itself() {
    let fake = Fake::new();
    let put = |namespace: &str, number: usize| {
        let mut object = config_map(&format!("x{number:03}"), "1");
        object["metadata"]["namespace"] = namespace.into();
        fake.put(CONFIG_MAPS, object);
    };
    (0..150).for_each(|number| put("noisy", number));
    put("quiet", 0);
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let runs: Arc<Mutex<Vec<(String, Instant)>>> = Arc::default();
    let seen = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .concurrency(1)
        .register(move |_: Context, key: Key| {
            seen.lock().unwrap().push((key.to_string(), Instant::now()));
            async { Err(Error::msg("always")) }
        })
        .unwrap();
    beside(&manager, until("each has run twice", || runs.lock().unwrap().len() >= 302)).await;
    let runs = runs.lock().unwrap();
    let place = runs.iter().position(|(key, _)| key == "quiet/x000").unwrap();
    assert!(place < 5, "it waited for {place} of another namespace");
    // With a bucket for all of them, ten a second after the first hundred, the second round would take five seconds.
    assert!(runs[301].1 - runs[0].1 < Duration::from_secs(1));
}

/// The most reconciles at a time of a controller with this concurrency that has more objects than workers.
async fn most_at_a_time(concurrency: Option<usize>) -> usize {
    let fake = Fake::new();
    for number in 0..30 {
        fake.put(CONFIG_MAPS, config_map(&number.to_string(), "1"));
    }
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (now, most, done) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&done));
    let controller = Controller::for_kind::<ConfigMap>(&manager);
    let controller = match concurrency {
        Some(concurrency) => controller.concurrency(concurrency),
        None => controller,
    };
    controller
        .register(move |_: Context, _: Key| {
            let (now, most, done) = counters.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("all are done", || done.load(Ordering::SeqCst) == 30)).await;
    most.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn as_many_objects_as_allowed_are_worked_on_at_a_time_and_no_more() {
    assert_eq!(most_at_a_time(None).await, DEFAULT_CONCURRENCY);
    assert_eq!(most_at_a_time(Some(1)).await, 1);
    assert_eq!(most_at_a_time(Some(7)).await, 7);
}

#[tokio::test(start_paused = true)]
async fn one_object_is_never_worked_on_twice_at_a_time() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "0"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (now, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&now), Arc::clone(&runs));
    let handle = Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            let (now, runs) = counters.clone();
            async move {
                assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "beside another run");
                tokio::time::sleep(Duration::from_secs(10)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                runs.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async {
        // While the first run goes on: all of these become one second run.
        for change in 1..=5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.put(CONFIG_MAPS, config_map("a", &change.to_string()));
        }
        until("two runs", || runs.load(Ordering::SeqCst) == 2).await;
        until("rest", || handle.is_idle()).await;
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let panics = r#"controller_runtime_reconcile_panics_total{controller="configmap"} 0"#;
    assert!(manager.metrics().encode().contains(panics));
}
