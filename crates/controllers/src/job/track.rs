//! Counting each pod once: first its uid is written down, then its finalizer goes, then the number grows.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::condition::{self, COMPLETE, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use super::evaluate::Evaluation;
use super::indexes::Indexes;
use super::policy::{Verdict, judge_failure};
use super::tracked::{has_finalizer, index, is_failed, is_succeeded, uid, wanted_index};
use super::{int, is_indexed};

/// The most uids that a status holds.
const MOST_UNCOUNTED: usize = 500;

/// The status to write before finalizers are removed.
#[derive(Debug)]
pub struct Tracking<'a> {
    pub status: JobStatus,
    pub changed: bool,
    /// Pods whose finalizer goes once the status is written.
    pub release: Vec<&'a Pod>,
    /// Uids of pods that have the finalizer now.
    pub held: BTreeSet<String>,
    /// The condition that ends the Job when all is counted.
    pub end: Option<JobCondition>,
}

/// Adds ended pods to the status, up to its limit.
pub fn track<'a>(
    job: &Job,
    pods: &[&'a Pod],
    evaluation: &Evaluation<'_>,
    changed: bool,
    now: Timestamp,
) -> Tracking<'a> {
    let held = pods.iter().filter(|pod| has_finalizer(pod)).map(|pod| uid(pod).to_owned()).collect();
    let mut status = evaluation.status.clone();
    let known = Known::of(&status);
    let mut tracking = Tracking {
        changed,
        release: Vec::new(),
        held,
        end: evaluation.end.clone(),
        status: JobStatus::default(),
    };
    tracking.changed |= count(&mut status, &tracking.held);
    let mut ordered: Vec<&Pod> = pods.iter().copied().filter(|pod| has_finalizer(pod)).collect();
    if is_indexed(job) {
        ordered.sort_by_key(|pod| index(pod));
    }
    let mut new_indexes = Vec::new();
    let mut full = false;
    for pod in ordered.into_iter().filter(|pod| may_release(job, evaluation, pod)) {
        tracking.release.push(pod);
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        match noted(job, evaluation, &known, pod) {
            Note::Nothing => {}
            Note::Index(index) => new_indexes.push(index),
            Note::Succeeded => uncounted.succeeded.get_or_insert_default().push(uid(pod).to_owned()),
            Note::Failed => uncounted.failed.get_or_insert_default().push(uid(pod).to_owned()),
        }
        let len = |uids: &Option<Vec<String>>| uids.as_ref().map_or(0, Vec::len);
        full = new_indexes.len() + len(&uncounted.succeeded) + len(&uncounted.failed) >= MOST_UNCOUNTED;
        if full {
            break;
        }
    }
    tracking.changed |= !new_indexes.is_empty() || Known::of(&status).grew(&known);
    if is_indexed(job) {
        tracking.changed |= write_indexes(evaluation, new_indexes, &mut status);
    }
    tracking.changed |= note_end(&mut tracking.end, &mut status, now);
    if full {
        // The remaining pods are counted first.
        tracking.end = None;
    }
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    tracking.status = status;
    tracking
}

/// Uids in the status.
struct Known {
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl Known {
    fn of(status: &JobStatus) -> Known {
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        Known {
            succeeded: uncounted.succeeded.into_iter().flatten().collect(),
            failed: uncounted.failed.into_iter().flatten().collect(),
        }
    }

    fn grew(&self, before: &Known) -> bool {
        !self.succeeded.is_subset(&before.succeeded) || !self.failed.is_subset(&before.failed)
    }
}

/// The way in which a pod enters the status.
enum Note {
    Nothing,
    Succeeded,
    Failed,
    Index(i32),
}

fn noted(job: &Job, evaluation: &Evaluation<'_>, known: &Known, pod: &Pod) -> Note {
    if is_succeeded(pod) && !known.failed.contains(uid(pod)) {
        if !is_indexed(job) {
            return if known.succeeded.contains(uid(pod)) { Note::Nothing } else { Note::Succeeded };
        }
        // An index that succeeded stays so: no uid is needed.
        let new = wanted_index(job, pod).filter(|index| !evaluation.counted_indexes.has(*index));
        return new.map_or(Note::Nothing, Note::Index);
    }
    // When the Job has failed, every pod that has not ended has failed too.
    let ends_badly = evaluation.end.as_ref().is_some_and(|end| end.type_ != SUCCESS_CRITERIA_MET);
    let wanted = !is_indexed(job) || wanted_index(job, pod).is_some();
    let counts = (is_failed(job, pod) || ends_badly)
        && wanted
        && !known.failed.contains(uid(pod))
        && judge_failure(job, pod) != Verdict::Ignore;
    if counts { Note::Failed } else { Note::Nothing }
}

/// Whether the pod has ended, or no longer matters; a failed one that carries the failures of its index stays.
fn may_release(job: &Job, evaluation: &Evaluation<'_>, pod: &Pod) -> bool {
    if job.metadata.deletion_timestamp.is_some() || evaluation.end.is_some() || is_succeeded(pod) {
        return true;
    }
    let awaited = index(pod).and_then(|index| evaluation.awaited.get(&index));
    is_failed(job, pod) && awaited.is_none_or(|awaited| uid(awaited) != uid(pod))
}

fn write_indexes(evaluation: &Evaluation<'_>, new: Vec<i32>, status: &mut JobStatus) -> bool {
    let indexes = evaluation.indexes.merged(&Indexes::of(new));
    let text = Some(indexes.to_string()).filter(|text| !text.is_empty());
    let failed = evaluation.failed_indexes.as_ref().map(Indexes::to_string);
    let changed = text != status.completed_indexes || failed != status.failed_indexes;
    status.succeeded = Some(indexes.total()).filter(|total| *total != 0);
    status.completed_indexes = text;
    status.failed_indexes = failed;
    changed
}

/// Writes down what ends the Job, and makes of it the condition that follows when all pods are gone.
fn note_end(end: &mut Option<JobCondition>, status: &mut JobStatus, now: Timestamp) -> bool {
    let Some(cause) = end.clone() else { return false };
    let last = match cause.type_.as_str() {
        SUCCESS_CRITERIA_MET => COMPLETE,
        FAILURE_TARGET => FAILED,
        _ => return false,
    };
    *end = Some(condition::as_type(last, &cause, now));
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|known| known.type_ == cause.type_ && known.status == "True") {
        return false;
    }
    conditions.push(cause);
    true
}

/// Moves uids without finalizer from the lists into the numbers; whether there were any.
pub fn count(status: &mut JobStatus, held: &BTreeSet<String>) -> bool {
    let Some(uncounted) = &mut status.uncounted_terminated_pods else { return false };
    let count = |uids: &mut Option<Vec<String>>, number: &mut Option<i32>| {
        let before = uids.as_ref().map_or(0, Vec::len);
        if let Some(uids) = uids.as_mut() {
            uids.retain(|uid| held.contains(uid));
        }
        let gone = before - uids.as_ref().map_or(0, Vec::len);
        *uids = uids.take().filter(|uids| !uids.is_empty());
        if gone > 0 {
            *number = Some(number.unwrap_or(0) + int(gone));
        }
        gone > 0
    };
    let succeeded = count(&mut uncounted.succeeded, &mut status.succeeded);
    let failed = count(&mut uncounted.failed, &mut status.failed);
    succeeded || failed
}

/// Ends the Job, if all its pods are counted and gone; whether it did.
pub fn finish(status: &mut JobStatus, end: Option<&JobCondition>, terminating: i32, now: Timestamp) -> bool {
    let Some(end) = end else { return false };
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let waits = uncounted.is_some_and(|pods| pods.succeeded.is_some() || pods.failed.is_some());
    if waits || terminating > 0 {
        return false;
    }
    let end = condition::as_type(&end.type_, end, now);
    if end.type_ == COMPLETE {
        status.completion_time = end.last_transition_time.clone();
    }
    condition::set(status.conditions.get_or_insert_default(), end);
    true
}
