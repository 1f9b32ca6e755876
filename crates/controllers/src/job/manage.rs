//! Decides how many pods to create, and which to delete.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::backoff::remaining_of_index;
use super::evaluate::Evaluation;
use super::indexes::Indexes;
use super::template::Wanted;
use super::tracked::{index, replaces_failed_only, wanted_index};
use super::{int, is_indexed, is_suspended, spec};
use crate::object::pod::is_terminating;
use crate::replicaset::stage_order;

/// The most pods that one look creates or deletes; the rest follows at the next.
const BURST: usize = 500;
/// The least that is waited: pods that fail together are replaced together.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// Pods to create and to delete.
#[derive(Debug, Default, PartialEq)]
pub struct Plan<'a> {
    /// Pods to delete. They do not count as failures.
    pub delete: Vec<&'a Pod>,
    /// Pods to create.
    pub create: Create<'a>,
    /// When something may be created that may not now.
    pub wait: Option<Duration>,
}

#[derive(Debug, Default, PartialEq)]
pub enum Create<'a> {
    #[default]
    None,
    Plain(usize),
    Indexed(Vec<Wanted<'a>>),
}

/// Decides, for a Job that goes on.
pub fn manage<'a>(job: &Job, pods: &[&'a Pod], evaluation: &Evaluation<'a>, now: Timestamp) -> Plan<'a> {
    let active = evaluation.active.len();
    let wanted = if is_suspended(job) { 0 } else { wanted_active(job, evaluation) };
    let mut delete = surplus(job, &evaluation.active, active.saturating_sub(wanted));
    if !is_suspended(job) {
        delete.truncate(BURST);
    }
    if !delete.is_empty() || is_suspended(job) {
        return Plan { delete, ..Plan::default() };
    }
    let leaving =
        if replaces_failed_only(job) { usize::try_from(evaluation.terminating).unwrap_or(0) } else { 0 };
    let missing = wanted.saturating_sub(active + leaving).min(BURST);
    if missing == 0 {
        return Plan::default();
    }
    if spec(job).backoff_limit_per_index.is_some() {
        return create_by_index(pending(job, pods, evaluation, missing), &evaluation.awaited, now);
    }
    let wait = evaluation.record.remaining(now);
    if !wait.is_zero() {
        return Plan { wait: Some(wait.max(LEAST_WAIT)), ..Plan::default() };
    }
    let create = if is_indexed(job) {
        let indexes = pending(job, pods, evaluation, missing).into_iter();
        Create::Indexed(indexes.map(|index| Wanted { index, replaces: None }).collect())
    } else {
        Create::Plain(missing)
    };
    Plan { create, ..Plan::default() }
}

fn wanted_active(job: &Job, evaluation: &Evaluation<'_>) -> usize {
    let parallelism = spec(job).parallelism.unwrap_or(1);
    let wanted = match spec(job).completions {
        // The first success of a queue of work says that it is empty: who still works finishes.
        None if evaluation.succeeded > 0 => int(evaluation.active.len()),
        None => parallelism,
        Some(completions) => (completions - evaluation.succeeded).min(parallelism),
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// The first indexes without an end or a pod.
fn pending(job: &Job, pods: &[&Pod], evaluation: &Evaluation<'_>, count: usize) -> Vec<i32> {
    let busy = evaluation.active.iter().filter_map(|pod| index(pod));
    let leaving = pods.iter().filter(|pod| replaces_failed_only(job) && is_terminating(pod));
    let taken = Indexes::of(busy.chain(leaving.filter_map(|pod| index(pod))))
        .merged(&evaluation.indexes)
        .merged(&evaluation.failed_indexes.clone().unwrap_or_default());
    taken.missing(spec(job).completions.unwrap_or(0), count)
}

/// Creates pods by index. Each index has its own back-off.
fn create_by_index<'a>(indexes: Vec<i32>, awaited: &BTreeMap<i32, &'a Pod>, now: Timestamp) -> Plan<'a> {
    let mut ready = Vec::new();
    let mut wait: Option<Duration> = None;
    for index in indexes {
        let replaces = awaited.get(&index).copied();
        let left = replaces.map_or(Duration::ZERO, |pod| remaining_of_index(pod, now));
        if left.is_zero() {
            ready.push(Wanted { index, replaces });
        } else {
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
    }
    if ready.is_empty() {
        return Plan { wait: wait.map(|wait| wait.max(LEAST_WAIT)), ..Plan::default() };
    }
    Plan { create: Create::Indexed(ready), ..Plan::default() }
}

/// The pods that are too many: at least so many, and of an indexed Job all that are no index's only one.
fn surplus<'a>(job: &Job, active: &[&'a Pod], at_least: usize) -> Vec<&'a Pod> {
    let mut going: Vec<&Pod> = Vec::new();
    let mut left: Vec<&Pod> = Vec::new();
    if is_indexed(job) {
        let mut by_index: BTreeMap<Option<i32>, Vec<&'a Pod>> = BTreeMap::new();
        for pod in active.iter().copied() {
            by_index.entry(wanted_index(job, pod)).or_default().push(pod);
        }
        for (index, pods) in by_index {
            let mut ordered: Vec<&Pod> = stage_order(&pods).into_iter().map(|at| pods[at]).collect();
            left.extend(index.and_then(|_| ordered.pop()));
            going.extend(ordered);
        }
    } else {
        left.extend(active);
    }
    if going.len() < at_least {
        let more = at_least - going.len();
        going.extend(stage_order(&left).into_iter().take(more).map(|at| left[at]));
    }
    going
}
