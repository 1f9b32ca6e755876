//! Leader election between two managers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint::leader_election::LeaderElection;
use setpoint::{Action, Context, Controller, Key, Manager, ManagerOptions};
use tokio_util::sync::CancellationToken;

use super::{Place, until, until_true};

fn candidate(place: &Place, identity: &str) -> (Manager, Arc<AtomicUsize>) {
    let mut election = LeaderElection::new(&place.namespace, "operator").identity(identity);
    election.lease_duration = Duration::from_secs(8);
    election.renew_deadline = Duration::from_secs(6);
    election.retry_period = Duration::from_millis(300);
    let options = ManagerOptions::with(|options| options.leader_election = Some(election));
    let manager = place.manager_with(options);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    Controller::for_kind::<ConfigMap>(&manager)
        .register(move |_: Context, _: Key| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Action::requeue_after(Duration::from_millis(100))) }
        })
        .unwrap();
    (manager, runs)
}

#[tokio::test]
async fn one_leads_and_the_other_follows() {
    let place = Place::new().await;
    place.put("a", "1").await;
    let leases = place.api::<Lease>();
    let (first, first_runs) = candidate(&place, "first");
    let (second, second_runs) = candidate(&place, "second");
    let stop = CancellationToken::new();
    let holder = async || leases.get_opt("operator").await.unwrap()?.spec?.holder_identity;
    let script = async {
        until_true("the first works", || first_runs.load(Ordering::SeqCst) > 3).await;
        assert_eq!(holder().await.as_deref(), Some("first"));
    };
    // Dropped without a farewell: the other must wait for the lease to end.
    tokio::select! {
        biased;
        ended = first.run(std::future::pending()) => panic!("{ended:?}"),
        () = script => {}
    }
    let script = async {
        until_true("the second works", || second_runs.load(Ordering::SeqCst) > 3).await;
        assert_eq!(holder().await.as_deref(), Some("second"));
        let lease = leases.get("operator").await.unwrap().spec.unwrap();
        assert_eq!((lease.lease_transitions, lease.lease_duration_seconds), (Some(1), Some(8)));
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(second.run(stop.clone().cancelled_owned()), script);
    ended.unwrap();
    until("the lease is released", async || (holder().await.as_deref() == Some("")).then_some(())).await;
}
