//! Tables: counts, ranking, conditions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Time {
    Time(now() - SignedDuration::from_secs(seconds))
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), "web".to_owned())])
}

fn set(replicas: i32) -> ReplicaSet {
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some("web-1".into()),
            namespace: Some("ns".into()),
            uid: Some("rs-uid".into()),
            generation: Some(2),
            ..Default::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            template: Some(PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels()), ..Default::default() }),
                spec: Some(PodSpec::default()),
            }),
            ..Default::default()
        },
        status: None,
    }
}

/// A pod that has run on `node` for `age` seconds and been ready for `ready` of them.
fn pod(name: &str, node: &str, phase: &str, age: i64, ready: Option<i64>) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(name.into()),
            labels: Some(labels()),
            creation_timestamp: Some(ago(age)),
            ..Default::default()
        },
        spec: Some(PodSpec {
            node_name: Some(node.into()).filter(|node: &String| !node.is_empty()),
            ..Default::default()
        }),
        status: Some(PodStatus {
            phase: Some(phase.into()),
            conditions: ready.map(|ready| {
                vec![PodCondition {
                    type_: "Ready".into(),
                    status: "True".into(),
                    last_transition_time: Some(ago(ready)),
                    ..Default::default()
                }]
            }),
            ..Default::default()
        }),
    }
}

fn with_cost(mut pod: Pod, cost: &str) -> Pod {
    let annotation = ("controller.kubernetes.io/pod-deletion-cost".to_owned(), cost.to_owned());
    pod.metadata.annotations = Some(BTreeMap::from([annotation]));
    pod
}

fn with_restarts(mut pod: Pod, count: i32) -> Pod {
    let status = ContainerStatus { restart_count: count, ..Default::default() };
    pod.status.as_mut().unwrap().container_statuses = Some(vec![status]);
    pod
}

#[test]
fn the_number_of_pods_follows_the_spec_in_bursts() {
    let pods: Vec<Pod> = (0..600).map(|n| pod(&format!("p{n:03}"), "n", "Running", 100, Some(50))).collect();
    for (wanted, present, create, delete) in [
        (3, 0, 3, 0),
        (3, 3, 0, 0),
        (3, 5, 0, 2),
        (0, 2, 0, 2),
        (1000, 0, 500, 0),
        (0, 600, 0, 500),
        (-1, 0, 0, 0),
    ] {
        let active: Vec<&Pod> = pods[..present].iter().collect();
        let plan = plan(&set(wanted), &active, &[], now());
        assert_eq!((plan.create, plan.delete.len()), (create, delete), "{wanted} of {present}");
    }
    let mut going = set(3);
    going.metadata.deletion_timestamp = Some(ago(0));
    assert_eq!(plan(&going, &[], &[], now()), Plan::default());
}

#[test]
fn each_criterion_decides_when_those_before_are_equal() {
    let base = |name: &str| pod(name, "n", "Running", 1000, Some(500));
    // Each pair: the first goes first.
    for (criterion, first, second) in [
        ("unassigned", pod("z", "", "Running", 1000, Some(500)), base("a")),
        ("pending", pod("z", "n", "Pending", 1000, Some(500)), base("a")),
        ("unknown", pod("z", "n", "Unknown", 1000, Some(500)), base("a")),
        ("not ready", pod("z", "n", "Running", 1000, None), base("a")),
        ("lower cost", with_cost(base("z"), "-5"), base("a")),
        ("invalid cost is zero", base("a"), with_cost(base("z"), "+7")),
        ("crowded node", pod("z", "crowded", "Running", 1000, Some(500)), base("a")),
        ("ready for less", pod("z", "n", "Running", 1000, Some(5)), base("a")),
        ("more restarts", with_restarts(base("z"), 3), with_restarts(base("a"), 2)),
        ("newer", pod("z", "n", "Running", 501, Some(500)), pod("a", "n", "Running", 9000, Some(500))),
        ("uid", base("a"), base("z")),
    ] {
        let crowd: Vec<Pod> = (0..3).map(|n| pod(&format!("c{n}"), "crowded", "Running", 1, None)).collect();
        let related: Vec<&Pod> = crowd.iter().collect();
        for (pods, expected) in [([&first, &second], 0), ([&second, &first], 1)] {
            let plan = plan(&set(1), &pods, &related, now());
            assert_eq!(plan.delete, [expected], "{criterion}");
        }
    }
}

#[test]
fn status_counts_ready_available_and_fully_labelled() {
    let mut stranger = pod("c", "n", "Running", 100, None);
    stranger.metadata.labels = None;
    let pods = [pod("a", "n", "Running", 100, Some(60)), pod("b", "n", "Running", 100, Some(4)), stranger];
    let active: Vec<&Pod> = pods.iter().collect();
    let mut set = set(3);
    set.spec.min_ready_seconds = Some(10);
    let outlook1 = next_status(&set, &active, Some(2), None, now());
    let status = outlook1.status.unwrap();
    assert_eq!(
        (status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas),
        (3, Some(2), Some(2), Some(1))
    );
    assert_eq!((status.terminating_replicas, status.observed_generation), (Some(2), Some(2)));
    assert_eq!(outlook1.requeue, Some(Duration::from_secs(6)));
    // Seen again, nothing changes; the wait goes on.
    set.status = Some(status);
    assert_eq!(
        next_status(&set, &active, Some(2), None, now()),
        NextStatus { status: None, requeue: Some(Duration::from_secs(6)) }
    );
    // Everybody available: no wait.
    let later = now() + SignedDuration::from_secs(6);
    let after = next_status(&set, &active, Some(2), None, later);
    assert_eq!((after.status.unwrap().available_replicas, after.requeue), (Some(2), None));
}

#[test]
fn a_failure_is_said_once_and_taken_back() {
    let failure = Failure { message: "pods \"x\" is forbidden".into() };
    for (wanted, reason) in [(3, "FailedCreate"), (0, "FailedDelete")] {
        let pod = pod("a", "n", "Running", 100, None);
        let mut set = set(wanted);
        let status = next_status(&set, &[&pod], Some(0), Some(&failure), now()).status.unwrap();
        let condition = &status.conditions.as_ref().unwrap()[0];
        assert_eq!(condition.type_.as_deref(), Some("ReplicaFailure"));
        assert_eq!(condition.reason.as_deref(), Some(reason));
        assert_eq!(condition.message.as_deref(), Some("pods \"x\" is forbidden"));
        set.status = Some(status);
        let other = Failure { message: "another text".into() };
        assert_eq!(next_status(&set, &[&pod], Some(0), Some(&other), now()).status, None);
        assert_eq!(next_status(&set, &[&pod], Some(0), None, now()).status.unwrap().conditions, None);
    }
}

#[test]
fn a_pod_is_made_from_the_template() {
    let pod = {
        let set = set(1);
        pod_from_template(&set, set.reference())
    };
    assert_eq!(pod.metadata.generate_name.as_deref(), Some("web-1-"));
    assert_eq!(pod.metadata.labels, Some(labels()));
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str(), owner.block_owner_deletion),
        ("ReplicaSet", "rs-uid", Some(true))
    );
}
