//! A ReplicaSet's status, and when to look again.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::object::field::{Condition, Field, replica_set_spec};
use crate::object::pod::{is_available, is_ready, until_available};
use crate::object::selector::{Labels, contains};
use crate::object::time::whole_seconds;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The error that prevented the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
}

/// The status to write, if it changed, and when time alone will change it.
#[derive(Debug, PartialEq)]
pub struct NextStatus {
    pub status: Option<ReplicaSetStatus>,
    pub requeue: Option<Duration>,
}

/// Judges the ReplicaSet by its active pods. `terminating` is `None` if the kind does not count those on their way out.
pub fn next_status(
    set: &ReplicaSet,
    active: &[&Pod],
    terminating: Option<usize>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> NextStatus {
    let before = normal(set.status.clone().unwrap_or_default());
    let spec = replica_set_spec(set);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let template_labels =
        spec.template.as_ref().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    let none = Labels::new();
    let labels = template_labels.unwrap_or(&none);
    let count = |test: &dyn Fn(&Pod) -> bool| Some(int(active.iter().filter(|pod| test(pod)).count()));
    let status = normal(ReplicaSetStatus {
        replicas: int(active.len()),
        fully_labeled_replicas: count(&|pod| contains(pod.metadata.labels.as_ref(), labels)),
        ready_replicas: count(&is_ready),
        available_replicas: count(&|pod| is_available(pod, min_ready, now)),
        terminating_replicas: terminating.map(int),
        observed_generation: set.metadata.generation,
        conditions: conditions(
            set,
            before.conditions.clone().unwrap_or_default(),
            active.len(),
            failure,
            now,
        ),
    });
    let waiting = min_ready > 0 && status.ready_replicas != status.available_replicas;
    let requeue = waiting.then(|| next_availability(active, min_ready, now));
    NextStatus { status: (status != before).then_some(status), requeue }
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Zero and absent are one on the wire.
fn normal(status: ReplicaSetStatus) -> ReplicaSetStatus {
    ReplicaSetStatus {
        fully_labeled_replicas: status.fully_labeled_replicas.filter(|count| *count != 0),
        ready_replicas: status.ready_replicas.filter(|count| *count != 0),
        available_replicas: status.available_replicas.filter(|count| *count != 0),
        observed_generation: status.observed_generation.filter(|generation| *generation != 0),
        conditions: status.conditions.filter(|conditions| !conditions.is_empty()),
        ..status
    }
}

fn conditions(
    set: &ReplicaSet,
    mut conditions: Vec<ReplicaSetCondition>,
    active: usize,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let is_failure = |condition: &ReplicaSetCondition| condition.kind() == REPLICA_FAILURE;
    match failure {
        None => conditions.retain(|condition| !is_failure(condition)),
        // The first failure stands until one look succeeds; its text would otherwise change with every attempt.
        Some(_) if conditions.iter().any(is_failure) => {}
        Some(failure) => {
            let short = int(active) < replica_set_spec(set).replicas.unwrap_or(1);
            conditions.push(ReplicaSetCondition {
                type_: Field::with(REPLICA_FAILURE.to_owned()),
                status: Field::with("True".to_owned()),
                reason: Some(if short { "FailedCreate" } else { "FailedDelete" }.into()),
                message: Some(failure.message.clone()),
                last_transition_time: Some(whole_seconds(now)),
            });
        }
    }
    Some(conditions)
}

/// The earliest moment at which a pod becomes available by merely staying ready.
fn next_availability(active: &[&Pod], min_ready: i32, now: Timestamp) -> Duration {
    let left = active
        .iter()
        .filter_map(|pod| until_available(pod, min_ready, now))
        .filter(|left| !left.is_zero())
        .min();
    let left = left.and_then(|left| Duration::try_from(left).ok());
    left.unwrap_or_else(|| Duration::from_secs(u64::try_from(min_ready).unwrap_or(0)))
}
