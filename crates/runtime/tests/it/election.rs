//! Leader election between managers on one server, in virtual time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::leader_election::{LeaderElection, LeaderElectionError};
use setpoint::manager::ManagerError;
use setpoint::{Action, ClientError, Context, Controller, Key, Manager, ManagerOptions, Patch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::controllers::{CONFIG_MAPS, beside, config_map, until};
use crate::fake::Fake;

const LEASES: &str = "apis/coordination.k8s.io/v1/leases";

/// A candidate: counts its reconciles.
fn candidate(client: kube::Client, identity: &str) -> (Manager, Arc<AtomicUsize>) {
    let election = LeaderElection::new("kube-system", "operator").identity(identity);
    let options = ManagerOptions::with(|options| options.leader_election = Some(election));
    let manager = Manager::new(client, options);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Action::requeue_after(Duration::from_secs(1))) }
        })
        .unwrap();
    (manager, runs)
}

fn holder(fake: &Fake) -> String {
    let lease = fake.get(LEASES, "kube-system", "operator").unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Held by somebody who renews it no more.
fn foreign_lease() -> serde_json::Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "operator", "namespace": "kube-system"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 3}})
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_hands_over_at_once_when_it_stops() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let (first, first_runs) = candidate(fake.client(), "first");
    let (second, second_runs) = candidate(fake.client(), "second");
    let stop = CancellationToken::new();
    let stop_second = CancellationToken::new();
    let handover = async {
        until("the first leads", || first_runs.load(Ordering::SeqCst) > 0).await;
        assert_eq!(holder(&fake), "first");
        let lease = fake.get(LEASES, "kube-system", "operator").unwrap();
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
        assert_eq!(lease["spec"]["renewTime"].as_str().unwrap().len(), "2026-11-15T12:00:00.000000Z".len());
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((holder(&fake).as_str(), second_runs.load(Ordering::SeqCst)), ("first", 0));
        assert!(first.is_leader() && !second.is_leader());
        assert_eq!(second.leader().borrow().as_deref(), Some("first"));
        stop.cancel();
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(holder(&fake), "second", "a released lease is taken at the next look");
        assert!(second_runs.load(Ordering::SeqCst) > 0);
        assert_eq!(fake.get(LEASES, "kube-system", "operator").unwrap()["spec"]["leaseTransitions"], 1);
        stop_second.cancel();
    };
    let later = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        second.run(stop_second.clone().cancelled_owned()).await
    };
    let (one, two, ()) = tokio::join!(first.run(stop.clone().cancelled_owned()), later, handover);
    one.unwrap();
    two.unwrap();
    assert_eq!(holder(&fake), "");
    let released = &fake.get(LEASES, "kube-system", "operator").unwrap()["spec"];
    assert_eq!(released["leaseDurationSeconds"], 1, "as client-go does, so that nobody waits for it");
    let events =
        fake.writes().iter().filter(|call| call.starts_with("POST") && call.ends_with("/events")).count();
    assert_eq!(events, 4, "both became leader and stopped leading");
    let metrics = first.metrics().encode();
    let renewals = metrics.lines().find(|line| line.contains(r#"code="200",host="",method="PUT""#));
    let count = renewals.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).unwrap_or_default();
    assert!(count >= 30, "a minute of renewals is counted among the requests: {metrics}");
}

#[tokio::test(start_paused = true)]
async fn who_cannot_renew_stops_before_another_may_begin() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    // The first candidate's way to the Lease can be cut; everything else still reaches the server.
    let cut = Arc::new(AtomicBool::new(false));
    let service = {
        let (fake, cut) = (fake.clone(), Arc::clone(&cut));
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut fake, cut) = (fake.clone(), Arc::clone(&cut));
            async move {
                if cut.load(Ordering::SeqCst) && request.uri().path().contains("leases") {
                    std::future::pending::<()>().await;
                }
                tower::Service::call(&mut fake, request).await
            }
        })
    };
    let (first, first_runs) = candidate(kube::Client::new(service, "default"), "first");
    let (second, second_runs) = candidate(fake.client(), "second");
    let stop = CancellationToken::new();
    let first_client = first.client();
    let first_ended = async {
        let began = tokio::time::Instant::now();
        let ended = first.run(std::future::pending()).await;
        assert!(matches!(ended, Err(ManagerError::LeaseLost)), "{ended:?}");
        began.elapsed()
    };
    let script = async {
        until("the first leads", || first_runs.load(Ordering::SeqCst) > 0).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        cut.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let runs = first_runs.load(Ordering::SeqCst);
        assert_eq!(second_runs.load(Ordering::SeqCst), 0, "nobody else leads yet");
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(first_runs.load(Ordering::SeqCst), runs, "no reconcile starts after the deadline");
        assert!(second_runs.load(Ordering::SeqCst) > 0);
        let patch = Patch::Merge(json!({"data": {"key": "late"}}));
        let error = first_client.patch::<ConfigMap>(("default", "a"), &patch).await.unwrap_err();
        assert!(matches!(error, ClientError::NotLeader), "{error}");
        assert!(fake.writes().iter().all(|call| !call.contains("configmaps")));
        stop.cancel();
    };
    let later = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        second.run(stop.clone().cancelled_owned()).await
    };
    let (lived, two, ()) = tokio::join!(first_ended, later, script);
    two.unwrap();
    assert!(lived < Duration::from_secs(5 + 10 + 3), "{lived:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_another_make_is_respected_whatever_its_clock_says() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    // As client-go writes it, by a clock that is a year behind.
    let lease = |renewed: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "operator", "namespace": "kube-system"},
            "spec": {"holderIdentity": "go_1", "leaseDurationSeconds": 15, "leaseTransitions": 3,
                "acquireTime": "2025-01-01T00:00:00.000000Z", "renewTime": renewed}})
    };
    fake.put(LEASES, lease("2025-01-01T00:00:00.000000Z"));
    let (manager, runs) = candidate(fake.client(), "rust");
    let stop = CancellationToken::new();
    let script = async {
        for second in 1..=20 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            fake.put(LEASES, lease(&format!("2025-01-01T00:00:{second:02}.000000Z")));
            assert_eq!(runs.load(Ordering::SeqCst), 0);
        }
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 0, "the lease stood still for less than its duration");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(runs.load(Ordering::SeqCst) > 0);
        let taken = fake.get(LEASES, "kube-system", "operator").unwrap();
        assert_eq!(
            (&taken["spec"]["holderIdentity"], &taken["spec"]["leaseTransitions"]),
            (&json!("rust"), &json!(4))
        );
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop.clone().cancelled_owned()), script);
    ended.unwrap();
}

/// Each request may take half of the renew deadline: reading and then writing the Lease takes longer than that here.
#[tokio::test(start_paused = true)]
async fn a_slow_server_is_led_on() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let through = fake.client();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let through = through.clone();
        async move {
            if request.uri().path().contains("/leases") {
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            through.send(request).await
        }
    });
    let (manager, runs) = candidate(kube::Client::new(service, "default"), "slow");
    beside(&manager, async {
        until("it leads", || manager.is_leader()).await;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(manager.is_leader());
        }
        assert!(runs.load(Ordering::SeqCst) > 50);
    })
    .await;
}

#[test]
fn durations_that_cannot_work_are_refused() {
    let mut election = LeaderElection::new("a", "b");
    election.validate().unwrap();
    election.retry_period = Duration::MAX;
    assert_eq!(election.validate(), Err(LeaderElectionError::DeadlineTooShort));
    election.retry_period = Duration::from_secs(2);
    election.renew_deadline = election.lease_duration;
    assert_eq!(election.validate(), Err(LeaderElectionError::LeaseTooShort));
    election.renew_deadline = Duration::from_millis(2400);
    assert_eq!(election.validate(), Err(LeaderElectionError::DeadlineTooShort));
    // Rivals would read two seconds.
    election.lease_duration = Duration::from_millis(2900);
    (election.renew_deadline, election.retry_period) = (Duration::from_millis(2500), Duration::from_secs(1));
    assert_eq!(election.validate(), Err(LeaderElectionError::LeaseTooShort));
    election.lease_duration = Duration::from_secs(3);
    election.validate().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_work_keeps_being_added() {
    let fake = Fake::new();
    let (manager, _) = candidate(fake.client(), "me");
    let stop = CancellationToken::new();
    let script = async {
        until("it leads", || manager.is_leader()).await;
        // Each second, more often than the lease is renewed, and for longer than it lives unrenewed.
        for number in 0..30 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(manager.is_leader(), "after {number} s");
            manager.add(&number.to_string(), |_| async { Ok(()) }).unwrap();
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(manager.run(stop.clone().cancelled_owned()), script);
    ended.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_at_the_deadline_comes_too_late() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    // From the first renewal on, the Lease is written, and its writer answered, when the deadline has come.
    let deadline: Arc<Mutex<Option<Instant>>> = Arc::default();
    let service = {
        let (fake, deadline) = (fake.clone(), Arc::clone(&deadline));
        tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut fake = fake.clone();
            let late = match *request.method() {
                _ if !request.uri().path().contains("leases") => None,
                http::Method::POST => {
                    *deadline.lock().unwrap() = Some(Instant::now() + Duration::from_secs(10));
                    None
                }
                http::Method::PUT => *deadline.lock().unwrap(),
                _ => None,
            };
            async move {
                if let Some(late) = late {
                    tokio::time::sleep_until(late).await;
                }
                tower::Service::call(&mut fake, request).await
            }
        })
    };
    let (manager, runs) = candidate(kube::Client::new(service, "default"), "me");
    let ended = tokio::time::timeout(Duration::from_secs(60), manager.run(std::future::pending())).await;
    assert!(matches!(ended, Ok(Err(ManagerError::LeaseLost))), "{ended:?}");
    let deadline = deadline.lock().unwrap().unwrap();
    assert!(Instant::now() < deadline + Duration::from_secs(1), "it goes on after its end");
    assert_eq!(runs.load(Ordering::SeqCst), 10);
    let written = fake.writes().iter().filter(|call| call.starts_with("PUT")).count();
    assert_eq!(written, 1, "the server took the renewal: only its answer was late");
}

#[tokio::test(start_paused = true)]
async fn what_runs_without_the_lease_tries_again_until_its_write_may_be_sent() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.put(LEASES, foreign_lease());
    let (manager, leading) = candidate(fake.client(), "me");
    let (writer, runs) = (manager.client(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .named("always")
        .without_leader_election()
        .register(move |_: Context, _: Key| {
            counted.fetch_add(1, Ordering::SeqCst);
            let writer = writer.clone();
            async move {
                let patch = Patch::Merge(json!({"data": {"key": "written"}}));
                writer.patch::<ConfigMap>(("default", "a"), &patch).await?;
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async {
        until("it runs without the lease", || runs.load(Ordering::SeqCst) > 3).await;
        assert!(!manager.is_leader() && leading.load(Ordering::SeqCst) == 0, "somebody else leads");
        assert!(fake.writes().is_empty());
        until("the lease is taken", || manager.is_leader()).await;
        let written = || fake.get(CONFIG_MAPS, "default", "a").unwrap()["data"]["key"] == "written";
        until("the write is sent", written).await;
    })
    .await;
    let metrics = manager.metrics().encode();
    let failures = r#"controller_runtime_reconcile_errors_total{controller="always"} 0"#;
    assert!(metrics.contains(failures), "not being the leader is no failure: {metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_released_is_waited_for() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let mut election = LeaderElection::new("kube-system", "operator").identity("first");
    election.release_on_stop = false;
    let options = ManagerOptions::with(|options| options.leader_election = Some(election));
    let first = Manager::new(fake.client(), options);
    beside(&first, until("the first leads", || first.is_leader())).await;
    assert_eq!(
        (holder(&fake).as_str(), first.is_leader()),
        ("first", false),
        "it stopped, and is still named"
    );
    let began = Instant::now();
    let (second, runs) = candidate(fake.client(), "second");
    beside(&second, until("the second leads", || runs.load(Ordering::SeqCst) > 0)).await;
    assert!(began.elapsed() >= Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_election_is_counted_under_the_names_of_go() {
    let fake = Fake::new();
    fake.put(LEASES, foreign_lease());
    let (manager, _) = candidate(fake.client(), "me");
    let status = |value: u32| {
        let line = format!(r#"leader_election_master_status{{name="operator"}} {value}"#);
        manager.metrics().encode().lines().any(|known| known == line)
    };
    let slow_path = |count: u32| {
        let line = format!(r#"leader_election_slowpath_total{{name="operator"}} {count}"#);
        manager.metrics().encode().lines().any(|known| known == line)
    };
    beside(&manager, async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(status(0) && slow_path(0), "{}", manager.metrics().encode());
        until("it leads", || manager.is_leader()).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(status(1) && slow_path(0), "{}", manager.metrics().encode());
        // Somebody touches the Lease: the next renewal must read it first.
        let mut lease = fake.get(LEASES, "kube-system", "operator").unwrap();
        lease["metadata"]["labels"] = json!({"touched": "yes"});
        fake.put(LEASES, lease);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(status(1) && slow_path(1), "{}", manager.metrics().encode());
    })
    .await;
    assert!(status(0), "{}", manager.metrics().encode());
}

/// The process that led before wrote, and the watch of the next one lags.
#[tokio::test(start_paused = true)]
async fn a_new_leader_sees_what_the_one_before_wrote() {
    for (consistent, expected) in [(true, "new"), (false, "old")] {
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "old"));
        fake.put(LEASES, foreign_lease());
        let election = LeaderElection::new("kube-system", "operator").identity("next");
        let options = ManagerOptions::with(|options| {
            options.leader_election = Some(election);
            options.consistent_start = consistent;
        });
        let manager = Manager::new(fake.client(), options);
        let seen: Arc<Mutex<Option<String>>> = Arc::default();
        let first = Arc::clone(&seen);
        Controller::for_kind::<ConfigMap>(&manager)
            .register(move |ctx: Context, request: Key| {
                let first = Arc::clone(&first);
                async move {
                    let read = ctx.client().get::<ConfigMap>(&request).await?.unwrap();
                    first.lock().unwrap().get_or_insert_with(|| read.data.clone().unwrap()["key"].clone());
                    Ok(Action::done())
                }
            })
            .unwrap();
        beside(&manager, async {
            manager.informer::<ConfigMap>().wait_synced().await;
            fake.hold_watches(true);
            fake.put(CONFIG_MAPS, config_map("a", "new"));
            until("the first reconcile", || seen.lock().unwrap().is_some()).await;
            assert_eq!(seen.lock().unwrap().as_deref(), Some(expected), "consistent: {consistent}");
        })
        .await;
    }
}
