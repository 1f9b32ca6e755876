//! A Deployment's status: sums over its ReplicaSets, availability, progress.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};

use super::condition::{self, AVAILABLE, PROGRESSING, REPLICA_FAILURE};
use super::rollout::{Rollout, Set};
use crate::object::field::{Condition, deployment_spec};

/// Zero and absent are one on the wire; keep absent, so that a status equals itself read back.
pub fn normal(status: DeploymentStatus) -> DeploymentStatus {
    let count = |count: Option<i32>| count.filter(|count| *count != 0);
    DeploymentStatus {
        observed_generation: status.observed_generation.filter(|generation| *generation != 0),
        replicas: count(status.replicas),
        updated_replicas: count(status.updated_replicas),
        ready_replicas: count(status.ready_replicas),
        available_replicas: count(status.available_replicas),
        unavailable_replicas: count(status.unavailable_replicas),
        conditions: status.conditions.filter(|conditions| !conditions.is_empty()),
        ..status
    }
}

/// The sums and the Available condition.
pub fn plain(rollout: &Rollout<'_>) -> DeploymentStatus {
    let available = rollout.total_available();
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: Some(rollout.sets.iter().map(Set::actual).sum()),
        updated_replicas: Some(rollout.new.map_or(0, |new| rollout.sets[new].actual())),
        ready_replicas: Some(rollout.sets.iter().map(Set::ready).sum()),
        available_replicas: Some(available),
        unavailable_replicas: Some((rollout.total_replicas() - available).max(0)),
        terminating_replicas: terminating(&rollout.sets),
        collision_count: rollout.status.collision_count,
        conditions: rollout.status.conditions.clone(),
    };
    let (value, reason, message) = if available >= rollout.desired() - rollout.max_unavailable() {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    condition::set(&mut status, condition::new(AVAILABLE, value, reason, message.to_owned(), rollout.now));
    status
}

/// The sums, availability, progress and failures of a rollout.
pub fn of_rollout(rollout: &Rollout<'_>) -> DeploymentStatus {
    let mut status = plain(rollout);
    match condition::progress_deadline(rollout.deployment) {
        None => condition::remove(&mut status, PROGRESSING),
        Some(deadline) => progress(rollout, &mut status, deadline),
    }
    match replica_failure(rollout) {
        Some(failure) => condition::set(&mut status, failure),
        None => condition::remove(&mut status, REPLICA_FAILURE),
    }
    status
}

fn progress(rollout: &Rollout<'_>, status: &mut DeploymentStatus, deadline: i32) {
    let current = condition::get(&rollout.status, PROGRESSING).cloned();
    let said = current.as_ref().and_then(|current| current.reason.as_deref()).unwrap_or_default();
    if status.replicas == status.updated_replicas && said == condition::NEW_REPLICA_SET_AVAILABLE {
        return;
    }
    let who = match rollout.new {
        Some(new) => format!("ReplicaSet {:?}", rollout.sets[new].name()),
        None => format!("Deployment {:?}", rollout.name()),
    };
    let make = |value, reason, text| {
        condition::new(PROGRESSING, value, reason, format!("{who} {text}"), rollout.now)
    };
    if is_complete(rollout.deployment, status) {
        let done = make("True", condition::NEW_REPLICA_SET_AVAILABLE, "has successfully progressed.");
        condition::set(status, done);
    } else if has_progressed(&rollout.status, status) {
        let mut moving = make("True", condition::REPLICA_SET_UPDATED, "is progressing.");
        if let Some(current) = current {
            if current.value() == "True" {
                moving.last_transition_time = current.last_transition_time;
            }
            // Removed first, so that the time of update moves even with the same reason: the deadline counts from it.
            condition::remove(status, PROGRESSING);
        }
        condition::set(status, moving);
    } else if has_timed_out(current.as_ref(), deadline, rollout.now) {
        let late = make("False", condition::PROGRESS_DEADLINE_EXCEEDED, "has timed out progressing.");
        condition::set(status, late);
    }
}

/// Whether the newest template runs everywhere and everything is available.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment_spec(deployment).replicas.unwrap_or(1);
    [status.updated_replicas, status.replicas, status.available_replicas]
        .iter()
        .all(|count| count.unwrap_or(0) == desired)
        && status.observed_generation.unwrap_or(0) >= deployment.metadata.generation.unwrap_or(0)
}

fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let old = |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(now.updated_replicas) > count(before.updated_replicas)
        || old(now) < old(before)
        || count(now.ready_replicas) > count(before.ready_replicas)
        || count(now.available_replicas) > count(before.available_replicas)
}

fn has_timed_out(current: Option<&DeploymentCondition>, deadline: i32, now: Timestamp) -> bool {
    let Some(current) = current else { return false };
    match current.reason.as_deref() {
        Some(condition::NEW_REPLICA_SET_AVAILABLE) => false,
        Some(condition::PROGRESS_DEADLINE_EXCEEDED) => true,
        _ => current.last_update_time.as_ref().is_some_and(|from| {
            let limit = SignedDuration::from_secs(deadline.into());
            now.duration_since(from.0) > limit
        }),
    }
}

/// When the progress deadline must be looked at, if nothing else happens before.
pub fn progress_check(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Duration> {
    let deadline = condition::progress_deadline(rollout.deployment)?;
    let current = condition::get(status, PROGRESSING)?;
    let settled = current.reason.as_deref() == Some(condition::PROGRESS_DEADLINE_EXCEEDED);
    let paused = rollout.spec.paused == Some(true);
    if settled || paused || is_complete(rollout.deployment, status) {
        return None;
    }
    let from = current.last_update_time.as_ref()?.0;
    let left = SignedDuration::from_secs(deadline.into()) - rollout.now.duration_since(from);
    let left = Duration::try_from(left.max(SignedDuration::ZERO)).unwrap_or_default();
    // Times are whole seconds and the deadline must have passed, not just arrived.
    Some(left + Duration::from_secs(1))
}

fn replica_failure(rollout: &Rollout<'_>) -> Option<DeploymentCondition> {
    let of = |index: usize| {
        let status = rollout.sets[index].observed.status.as_ref()?;
        let failure =
            status.conditions.iter().flatten().find(|condition| condition.kind() == REPLICA_FAILURE)?;
        Some(condition::from_replica_set(failure))
    };
    rollout.new.and_then(of).or_else(|| (0..rollout.sets.len()).find_map(of))
}

/// Returns the sum, or `None` if a reconciled ReplicaSet does not report its number.
fn terminating(sets: &[Set<'_>]) -> Option<i32> {
    sets.iter().try_fold(0, |sum, set| match set.terminating() {
        Some(count) => Some(sum + count),
        None if set.observed_generation() == 0 => Some(sum),
        None => None,
    })
}

/// Counts a collision: another owner's ReplicaSet has the new name, so the next attempt uses another hash.
pub fn with_collision(status: DeploymentStatus) -> DeploymentStatus {
    DeploymentStatus { collision_count: Some(status.collision_count.unwrap_or(0) + 1), ..status }
}

/// The new ReplicaSet was refused.
pub fn with_create_failure(
    mut status: DeploymentStatus,
    message: String,
    now: Timestamp,
) -> DeploymentStatus {
    let reason = condition::REPLICA_SET_CREATE_ERROR;
    condition::set(&mut status, condition::new(PROGRESSING, "False", reason, message, now));
    status
}
