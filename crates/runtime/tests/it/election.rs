//! Leader election between managers on one server, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use setpoint::{
    Action, ClientError, Context, Controller, LeaderElection, Manager, ManagerError, ManagerOptions, Patch,
    Request,
};
use tokio_util::sync::CancellationToken;

use crate::controllers::{CONFIG_MAPS, config_map, until};
use crate::fake::Fake;

const LEASES: &str = "apis/coordination.k8s.io/v1/leases";

/// A candidate: counts its reconciles.
fn candidate(client: kube::Client, identity: &str) -> (Manager, Arc<AtomicUsize>) {
    let election = LeaderElection::new("kube-system", "operator").identity(identity);
    let options = ManagerOptions { leader_election: Some(election), ..ManagerOptions::default() };
    let manager = Manager::new(client, options);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .run(move |_: Context, _: Request| {
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

#[test]
fn durations_that_cannot_work_are_refused() {
    let mut election = LeaderElection::new("a", "b");
    election.validate().unwrap();
    election.renew_deadline = election.lease_duration;
    assert!(election.validate().is_err());
    election.renew_deadline = Duration::from_millis(2400);
    assert!(election.validate().is_err());
}
