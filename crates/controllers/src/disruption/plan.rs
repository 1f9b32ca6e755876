//! Computes the allowance of a budget from its selected pods and their expected number.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint::conditions::Conditions;

use crate::object::field::Field;
use crate::object::percent::{Round, scaled};
use crate::object::pod::is_ready;
use crate::object::selector;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// Time for which an evicted pod that is not terminating counts as lost: its deletion may have been refused after
/// all.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(2 * 60);

/// When a budget is counted again that could not be: the controllers of its pods are not watched, and no pod of it may
/// change before they do.
const RETRY_PERIOD: Duration = Duration::from_secs(60);

/// Pods by name, with the time of their eviction.
type Disrupted = BTreeMap<String, Time>;

/// The status to write, if it changed, and when time alone will change it.
#[derive(Debug, PartialEq)]
pub struct Plan {
    pub status: Option<PodDisruptionBudgetStatus>,
    pub requeue: Option<Duration>,
    /// Names of evicted pods that should have been deleted already.
    pub overdue: Vec<String>,
}

/// Whether the budget selects pods with these labels: one without a selector none, one with an empty selector all.
pub fn selects(budget: &PodDisruptionBudget, labels: Option<&selector::Labels>) -> bool {
    let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    wanted.is_some_and(|wanted| selector::matches(wanted, labels))
}

/// Whether the budget is a part of how many pods there should be, for which their controllers must be asked; otherwise
/// it counts the pods that there are.
pub fn is_relative(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// Counts the pods that the budget selects. `expected` is their expected number, or the reason why it is unknown. If
/// it is unknown, the budget allows no disruption.
pub fn plan(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    expected: Result<i32, String>,
    now: Timestamp,
) -> Plan {
    let before = normal(budget.status.clone().unwrap_or_default());
    let expected = match expected {
        Ok(expected) => expected,
        Err(failure) => {
            let status = failed(before.clone(), &failure, now);
            let status = (status != before).then_some(status);
            return Plan { status, requeue: Some(RETRY_PERIOD), overdue: Vec::new() };
        }
    };
    let (disrupted, overdue) = still_disrupted(before.disrupted_pods.as_ref(), pods, now);
    let requeue = disrupted.values().map(|time| left(time, now)).min();
    let healthy = pods.iter().filter(|pod| is_healthy(pod, &disrupted)).count();
    let healthy = i32::try_from(healthy).unwrap_or(i32::MAX);
    let desired = desired(budget, expected);
    // A budget without pods allows nothing: its first pods may come before their status does.
    let allowed = if expected > 0 { healthy.saturating_sub(desired).max(0) } else { 0 };
    let mut status = PodDisruptionBudgetStatus {
        current_healthy: Field::with(healthy),
        desired_healthy: Field::with(desired),
        expected_pods: Field::with(expected),
        disruptions_allowed: Field::with(allowed),
        disrupted_pods: Some(disrupted),
        observed_generation: budget.metadata.generation,
        conditions: before.conditions.clone(),
    };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    set_condition(&mut status, allowed > 0, reason, "", now);
    let status = normal(status);
    Plan {
        status: (status != before).then_some(status),
        requeue: requeue.and_then(|left| Duration::try_from(left).ok()),
        overdue,
    }
}

/// Returns the number of pods that must stay healthy.
fn desired(budget: &PodDisruptionBudget, expected: i32) -> i32 {
    let Some(spec) = &budget.spec else { return 0 };
    if spec.max_unavailable.is_some() {
        let lost = scaled(spec.max_unavailable.as_ref(), expected, Round::Up);
        return expected.saturating_sub(lost).max(0);
    }
    scaled(spec.min_available.as_ref(), expected, Round::Up)
}

fn is_healthy(pod: &Pod, disrupted: &Disrupted) -> bool {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    is_ready(pod) && pod.metadata.deletion_timestamp.is_none() && !disrupted.contains_key(name)
}

/// Returns the evicted pods whose deletion is not visible yet, and the names of those that were apparently not
/// deleted.
fn still_disrupted(known: Option<&Disrupted>, pods: &[&Pod], now: Timestamp) -> (Disrupted, Vec<String>) {
    let Some(known) = known else { return Default::default() };
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let names = staying.filter_map(|pod| pod.metadata.name.as_ref());
    let entries = names.filter_map(|name| known.get(name).map(|time| (name.clone(), time.clone())));
    let (waiting, overdue): (Disrupted, Disrupted) =
        entries.partition(|(_, time)| left(time, now).is_positive());
    (waiting, overdue.into_keys().collect())
}

/// Returns the remaining time for which an evicted pod counts as lost.
fn left(evicted: &Time, now: Timestamp) -> SignedDuration {
    DELETION_TIMEOUT.saturating_sub(now.duration_since(evicted.0))
}

/// Keeps the earlier counts, and allows no eviction.
fn failed(mut status: PodDisruptionBudgetStatus, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    status.disruptions_allowed = Field::with(0);
    set_condition(&mut status, false, "SyncFailed", why, now);
    normal(status)
}

fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    value: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut conditions = Conditions::of(status.conditions.as_deref(), status.observed_generation, now);
    match value {
        true => conditions.set_true(DISRUPTION_ALLOWED, reason, message),
        false => conditions.set_false(DISRUPTION_ALLOWED, reason, message),
    };
    status.conditions = Some(conditions.into_list());
}

/// Absent and zero numbers are one, as are absent and empty collections.
fn normal(mut status: PodDisruptionBudgetStatus) -> PodDisruptionBudgetStatus {
    make_present(&mut status.current_healthy);
    make_present(&mut status.desired_healthy);
    make_present(&mut status.expected_pods);
    make_present(&mut status.disruptions_allowed);
    status.disrupted_pods = status.disrupted_pods.filter(|pods| !pods.is_empty());
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status.observed_generation = status.observed_generation.filter(|generation| *generation != 0);
    status
}

fn make_present(number: &mut impl Field<i32>) {
    number.value_mut();
}
