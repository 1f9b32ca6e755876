//! A StatefulSet's status, and when to look again.

use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSetStatus;
use k8s_openapi::api::core::v1::Pod;

use super::identity::{ordinal, revision};
use super::plan::Plan;
use super::view::{View, is_created};
use crate::object::field::stateful_set_spec;
use crate::object::pod::{is_available, is_ready, phase, until_available};

/// Computes the status from the observed pods and the pods that the plan deletes.
pub fn status(view: &View<'_>, plan: &Plan, collision_count: i32) -> StatefulSetStatus {
    let before = view.set.status.clone().unwrap_or_default();
    let pods = || view.pods.iter().filter(|pod| ordinal(pod).is_some());
    let count = |test: &dyn Fn(&Pod) -> bool| i32::try_from(pods().filter(|pod| test(pod)).count());
    let count = |test: &dyn Fn(&Pod) -> bool| count(test).unwrap_or(i32::MAX);
    let is_running = |pod: &Pod| phase(pod) == "Running" && is_ready(pod);
    let is_of = |pod: &Pod, name: &str| {
        is_created(pod) && pod.metadata.deletion_timestamp.is_none() && revision(pod) == name
    };
    let replicas = count(&is_created);
    let ready = count(&is_running);
    let updated = count(&|pod| is_of(pod, &view.update.name));
    let mut current = count(&|pod| is_of(pod, &view.current.name));
    current -= i32::try_from(plan.outdated).unwrap_or(0);
    let mut current_revision = view.current.name.clone();
    let wanted = stateful_set_spec(view.set).replicas.unwrap_or(1);
    if updated == wanted && ready == wanted && replicas == wanted {
        current = updated;
        current_revision = view.update.name.clone();
    }
    StatefulSetStatus {
        replicas,
        ready_replicas: positive(ready),
        available_replicas: Some(count(&|pod| {
            is_running(pod) && is_available(pod, view.min_ready_seconds(), view.now)
        })),
        current_replicas: positive(current),
        updated_replicas: positive(updated),
        current_revision: Some(current_revision),
        update_revision: Some(view.update.name.clone()),
        observed_generation: view.set.metadata.generation,
        collision_count: Some(collision_count),
        conditions: before.conditions,
    }
}

/// Zero is not written.
fn positive(count: i32) -> Option<i32> {
    (count > 0).then_some(count)
}

/// When time alone makes another pod available.
pub fn requeue(view: &View<'_>) -> Option<Duration> {
    let seconds = view.min_ready_seconds();
    let left = view.pods.iter().filter_map(|pod| until_available(pod, seconds, view.now));
    left.filter(|left| left.is_positive()).min().map(jiff::SignedDuration::unsigned_abs)
}
