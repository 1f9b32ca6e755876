//! A DaemonSet's status, and when to look again.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::observed::Observed;
use crate::object::pod::{is_ready, until_available};

/// The status to write, if it changed, and when time alone will change it.
#[derive(Debug, PartialEq)]
pub struct NextStatus {
    pub status: Option<DaemonSetStatus>,
    pub requeue: Option<Duration>,
}

/// Counts nodes, each by its oldest pod.
pub fn next_status(observed: &Observed<'_>) -> NextStatus {
    let before = observed.set.status.clone().unwrap_or_default();
    let mut counted = Counted::default();
    for (node, verdict) in &observed.nodes {
        let oldest = observed.on(node).first();
        match (verdict.run, oldest) {
            (true, None) => counted.desired += 1,
            (true, Some(pod)) => {
                counted.desired += 1;
                counted.current += 1;
                counted.ready += i32::from(is_ready(pod));
                counted.available += i32::from(observed.is_available(pod));
                counted.updated += i32::from(observed.is_updated(pod));
            }
            (false, Some(_)) => counted.misscheduled += 1,
            (false, None) => {}
        }
    }
    let status = DaemonSetStatus {
        desired_number_scheduled: counted.desired,
        current_number_scheduled: counted.current,
        number_misscheduled: counted.misscheduled,
        number_ready: counted.ready,
        updated_number_scheduled: some(counted.updated),
        number_available: some(counted.available),
        number_unavailable: some(counted.desired - counted.available),
        observed_generation: observed.set.metadata.generation,
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
    };
    NextStatus { status: (status != normal(before)).then_some(status), requeue: next_availability(observed) }
}

#[derive(Default)]
struct Counted {
    desired: i32,
    current: i32,
    misscheduled: i32,
    ready: i32,
    available: i32,
    updated: i32,
}

/// Zero and absent are one on the wire.
fn some(count: i32) -> Option<i32> {
    Some(count).filter(|count| *count != 0)
}

fn normal(status: DaemonSetStatus) -> DaemonSetStatus {
    DaemonSetStatus {
        updated_number_scheduled: status.updated_number_scheduled.and_then(some),
        number_available: status.number_available.and_then(some),
        number_unavailable: status.number_unavailable.and_then(some),
        ..status
    }
}

/// Returns the earliest time at which a pod becomes available by staying ready. Includes pods that are not counted
/// because their predecessors wait for them.
fn next_availability(observed: &Observed<'_>) -> Option<Duration> {
    let seconds = observed.min_ready_seconds();
    let left = observed.pods.values().flatten().filter_map(|pod| until_available(pod, seconds, observed.now));
    left.filter(|left| !left.is_zero()).min().and_then(|left| Duration::try_from(left).ok())
}
