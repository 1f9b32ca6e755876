//! Replicas with mistakes: a leader that goes on after its Lease, and a standby that trusts an old cache.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Election, Oracle, Prove, Report, Running, Start, Subject, prove};

const NAMESPACE: &str = "default";
const LEASE: &str = "copier";

/// Claims the Lease if it is free or over. Never lets it go, and never looks whether a renewal came through.
async fn lead(client: &Client, start: &Start, election: &Election) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &election.namespace);
    let claim = |version: Option<String>| Lease {
        metadata: ObjectMeta {
            name: Some(election.name.clone()),
            resource_version: version,
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(election.identity.clone()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(start.clock.now())),
            ..LeaseSpec::default()
        }),
    };
    let is_over = |spec: &LeaseSpec| {
        let renewed = spec.renew_time.as_ref().map(|time| time.0.as_second()).unwrap_or_default();
        start.clock.now().as_second() - renewed > 15
    };
    loop {
        let claimed = match leases.get_opt(&election.name).await {
            Ok(None) => leases.create(&PostParams::default(), &claim(None)).await,
            Ok(Some(lease)) if lease.spec.as_ref().is_some_and(is_over) => {
                let claim = claim(lease.resource_version());
                leases.replace(&election.name, &PostParams::default(), &claim).await
            }
            _ => Err(kube::Error::LinesCodecMaxLineLengthExceeded),
        };
        if claimed.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Makes two copies of a ConfigMap, with a name or a generated one.
async fn copy(client: Client, start: Start, cached: bool) -> Result<(), String> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let cache: Arc<Mutex<Vec<ConfigMap>>> = Arc::default();
    let (watched, seen) = (maps.clone(), cache.clone());
    let watch = async move {
        loop {
            let Ok(list) = watched.list(&ListParams::default()).await else { continue };
            let version = list.metadata.resource_version.unwrap_or_default();
            *seen.lock().unwrap() = list.items;
            let Ok(events) = watched.watch(&WatchParams::default(), &version).await else { continue };
            let mut events = events.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                if let WatchEvent::Added(map) = event {
                    seen.lock().unwrap().push(map);
                }
            }
        }
    };
    let work = async move {
        if let Some(election) = &start.election {
            lead(&client, &start, election).await;
        }
        loop {
            let known = match cached {
                true => cache.lock().unwrap().clone(),
                false => maps.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default(),
            };
            let is_there = |name: &str| known.iter().any(|map| map.name_any().starts_with(name));
            for name in ["copy-1", "copy-2"] {
                if is_there("source") && !is_there(name) {
                    let (exact, prefix) = match cached {
                        true => (None, Some(format!("{name}-"))),
                        false => (Some(name.to_owned()), None),
                    };
                    let metadata = ObjectMeta { name: exact, generate_name: prefix, ..ObjectMeta::default() };
                    let copy = ConfigMap { metadata, ..ConfigMap::default() };
                    let _ = maps.create(&PostParams::default(), &copy).await;
                }
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    tokio::select! {
        biased;
        () = watch => Ok(()),
        () = work => Ok(()),
    }
}

fn explore(cached: bool, kind: &str) -> Report {
    let subject = Subject::new("copier", Vec::new(), move |start| Running {
        program: Box::pin(copy(start.client.clone(), start, cached)),
        panics: Box::new(|| 0),
        activity: None,
    });
    let life = |proof: Prove| {
        proof.apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "source"}, "data": {"a": "b"},
        }))
    };
    let bare = |options: &mut Options| {
        options.controllers = Controllers::None;
        options.nodes.count = 0;
    };
    life(prove(subject.with_lease(NAMESPACE, LEASE)).cluster(bare).only(kind)).run().unwrap()
}

#[test]
fn a_leader_that_goes_on_after_its_lease_is_found() {
    let report = explore(false, "leader cut off");
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!(finding.oracle, Oracle::Leader, "{report}");
    let words = "replica 1 sends POST configmaps/copy-2 while replica-2 holds the Lease";
    assert_eq!(finding.headline, words, "{report}");
}

#[test]
fn a_standby_that_trusts_an_old_cache_is_found() {
    let report = explore(true, "late standby");
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!(finding.oracle, Oracle::Convergence, "{report}");
    assert!(finding.headline.contains("copy-1-*2 should not be there"), "{report}");
}

#[test]
fn a_change_of_leader_between_two_writes_is_sound() {
    let report = explore(false, "change of leader");
    assert!(report.findings.is_empty(), "{report}");
    let count = report.visited["change of leader"];
    assert!(count.run == 2 && count.missed == 0, "{report}");
}
