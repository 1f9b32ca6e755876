//! Evaluates a Job's pods, and whether they end the Job.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::backoff::Record;
use super::condition::{self, FAILED, FAILURE_TARGET, SUCCESS_CRITERIA_MET};
use super::indexes::Indexes;
use super::policy::{Verdict, judge_failure, met};
use super::tracked::{
    finished_at, has_finalizer, index, index_failures, is_failed, is_succeeded, uid, wanted_index,
};
use super::{int, is_indexed, is_suspended, spec};
use crate::object::pod::{is_active, is_ready, is_terminating, phase};
use crate::object::time::whole_seconds;

/// A Job and its pods, as they are now.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub job: &'a Job,
    pub pods: &'a [&'a Pod],
    /// The record of earlier failures.
    pub record: Record,
    pub now: Timestamp,
}

/// The evaluation of a Job's pods. Counts include pods that are not in the status yet.
#[derive(Debug, Default)]
pub struct Evaluation<'a> {
    /// The status to go on from: with a start time, if the Job has started.
    pub status: JobStatus,
    pub active: Vec<&'a Pod>,
    pub ready: i32,
    pub terminating: i32,
    pub succeeded: i32,
    pub record: Record,
    /// The succeeded indexes in the status, and with those of pods that are still to be counted.
    pub counted_indexes: Indexes,
    pub indexes: Indexes,
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that waits for another attempt. It is kept because it carries the number of
    /// failures.
    pub awaited: BTreeMap<i32, &'a Pod>,
    /// The condition that ends the Job: success criteria, a failure, or an earlier failure.
    pub end: Option<JobCondition>,
    /// When the deadline comes.
    pub deadline_in: Option<Duration>,
}

/// Judges the Job.
pub fn evaluate<'a>(view: &View<'a>) -> Evaluation<'a> {
    let View { job, pods, now, .. } = *view;
    let mut status = job.status.clone().unwrap_or_default();
    if status.start_time.is_none() && !is_suspended(job) {
        status.start_time = Some(whole_seconds(now));
    }
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let known_succeeded = uncounted.succeeded.clone().unwrap_or_default();
    let known_failed = uncounted.failed.clone().unwrap_or_default();
    let new = |known: &[String], test: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> {
        let fresh = pods.iter().copied().filter(|pod| is_countable(job, pod) && test(pod));
        fresh.filter(|pod| !known.iter().any(|known| known == uid(pod))).collect()
    };
    let succeeded = new(&known_succeeded, &is_succeeded);
    let failed = new(&known_failed, &|pod| is_failed(job, pod));
    let counting = failed.iter().filter(|pod| judge_failure(job, pod) != Verdict::Ignore).count();
    let all_failed = status.failed.unwrap_or(0) + int(counting) + int(known_failed.len());
    let active: Vec<&Pod> = pods.iter().copied().filter(|pod| is_active(pod)).collect();
    let mut evaluation = Evaluation {
        ready: int(active.iter().filter(|pod| is_ready(pod)).count()),
        active,
        terminating: int(pods.iter().filter(|pod| is_terminating(pod)).count()),
        succeeded: status.succeeded.unwrap_or(0) + int(succeeded.len()) + int(known_succeeded.len()),
        record: view.record.with(&succeeded, &failed),
        status,
        ..Evaluation::default()
    };
    evaluation.end = ended(view, all_failed, &mut evaluation);
    if is_indexed(job) {
        evaluate_indexes(view, &mut evaluation);
    }
    evaluation
}

/// Whether the pod may be counted: not yet, and for an index that the Job asks for.
fn is_countable(job: &Job, pod: &Pod) -> bool {
    has_finalizer(pod) && (!is_indexed(job) || wanted_index(job, pod).is_some())
}

/// The end that was found before, or that policy, limit or deadline set now.
fn ended(view: &View<'_>, failed: i32, evaluation: &mut Evaluation<'_>) -> Option<JobCondition> {
    let View { job, pods, now, .. } = *view;
    if let Some(criteria) = condition::is_true(job, SUCCESS_CRITERIA_MET) {
        return Some(criteria.clone());
    }
    if let Some(target) = condition::is_true(job, FAILURE_TARGET) {
        return Some(condition::as_type(FAILED, target, now));
    }
    let failure =
        |reason: &str, message: &str| Some(condition::new(FAILURE_TARGET, "True", reason, message, now));
    let fatal = pods.iter().filter(|pod| is_failed(job, pod)).find_map(|pod| match judge_failure(job, pod) {
        Verdict::FailJob(message) => Some(message),
        _ => None,
    });
    if let Some(message) = fatal {
        return failure("PodFailurePolicy", &message);
    }
    if failed > spec(job).backoff_limit.unwrap_or(6) || restarts_exceed(job, pods) {
        return failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    let started = evaluation.status.start_time.as_ref().filter(|_| !is_suspended(job))?;
    let deadline = SignedDuration::from_secs(spec(job).active_deadline_seconds?);
    let left = deadline - now.duration_since(started.0);
    if left <= SignedDuration::ZERO {
        return failure("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    evaluation.deadline_in = Duration::try_from(left).ok();
    None
}

/// Whether containers that are started again in their pods have been so too often.
fn restarts_exceed(job: &Job, pods: &[&Pod]) -> bool {
    let policy = spec(job).template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let restarts: i32 =
        running.flat_map(|pod| containers(pod)).map(|container| container.restart_count).sum();
    match spec(job).backoff_limit.unwrap_or(6) {
        0 => restarts > 0,
        limit => restarts >= limit,
    }
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

/// Evaluates limits and success by index, which only Indexed Jobs have.
fn evaluate_indexes<'a>(view: &View<'a>, evaluation: &mut Evaluation<'a>) {
    let View { job, pods, now, .. } = *view;
    let completions = spec(job).completions.unwrap_or(0);
    let counted = evaluation.status.completed_indexes.as_deref().unwrap_or_default();
    evaluation.counted_indexes = Indexes::parse(counted, completions);
    let of = |test: &dyn Fn(&Pod) -> bool| {
        let some = pods.iter().filter(|pod| has_finalizer(pod) && test(pod));
        Indexes::of(some.filter_map(|pod| wanted_index(job, pod)))
    };
    evaluation.indexes = evaluation.counted_indexes.merged(&of(&is_succeeded));
    evaluation.succeeded = evaluation.indexes.total();
    if let Some(limit) = spec(job).backoff_limit_per_index {
        let known = evaluation.status.failed_indexes.as_deref().unwrap_or_default();
        let failed = Indexes::parse(known, completions).merged(&of(&|pod| is_index_failed(job, pod, limit)));
        if evaluation.end.is_none() {
            evaluation.end = index_failure(job, &failed, evaluation.indexes.total(), now);
        }
        evaluation.awaited = awaited(job, pods, &evaluation.indexes.merged(&failed));
        evaluation.failed_indexes = Some(failed);
    }
    if evaluation.end.is_none() {
        let criteria = met(spec(job).success_policy.as_ref(), completions, &evaluation.indexes);
        evaluation.end = criteria
            .map(|message| condition::new(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", &message, now));
    }
}

fn is_index_failed(job: &Job, pod: &Pod, limit: i32) -> bool {
    is_failed(job, pod)
        && match judge_failure(job, pod) {
            Verdict::FailIndex => true,
            Verdict::Ignore => false,
            _ => index_failures(pod).0 >= limit,
        }
}

fn index_failure(job: &Job, failed: &Indexes, succeeded: i32, now: Timestamp) -> Option<JobCondition> {
    let failed = failed.total();
    let (reason, message) = if spec(job).max_failed_indexes.is_some_and(|most| failed > most) {
        ("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes")
    } else if failed > 0 && failed + succeeded >= spec(job).completions.unwrap_or(0) {
        ("FailedIndexes", "Job has failed indexes")
    } else {
        return None;
    };
    Some(condition::new(FAILURE_TARGET, "True", reason, message, now))
}

/// The last failed pod of every index that has neither ended nor an active pod.
fn awaited<'a>(job: &Job, pods: &[&'a Pod], ended: &Indexes) -> BTreeMap<i32, &'a Pod> {
    let busy =
        Indexes::of(pods.iter().filter(|pod| is_active(pod)).filter_map(|pod| index(pod))).merged(ended);
    let mut awaited: BTreeMap<i32, &Pod> = BTreeMap::new();
    for pod in pods.iter().copied().filter(|pod| has_finalizer(pod) && is_failed(job, pod)) {
        let Some(index) = wanted_index(job, pod).filter(|index| !busy.has(*index)) else { continue };
        let later = awaited.get(&index).is_none_or(|known| {
            index_failures(known).1 <= index_failures(pod).1 && finished_at(known) <= finished_at(pod)
        });
        if later {
            awaited.insert(index, pod);
        }
    }
    awaited
}
