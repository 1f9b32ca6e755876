//! The status of a Job after its pods were managed.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};

use super::condition::{self, SUCCESS_CRITERIA_MET, SUSPENDED};
use super::evaluate::Evaluation;
use super::{is_suspended, spec};
use crate::object::time::whole_seconds;

/// The numbers of pods after managing them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub active: i32,
    pub ready: i32,
    pub terminating: i32,
}

/// Whether the status has something new, and what to tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StatusUpdate {
    pub changed: bool,
    /// Reason and message of an event.
    pub event: Option<(&'static str, &'static str)>,
}

/// Sets numbers and the Suspended condition; finds out whether enough pods have succeeded.
pub fn update_status(
    job: &Job,
    evaluation: &mut Evaluation<'_>,
    counts: Counts,
    now: Timestamp,
) -> StatusUpdate {
    let mut update = StatusUpdate::default();
    if evaluation.end.is_none() {
        if is_complete(job, evaluation.succeeded, counts.active) {
            evaluation.end = Some(completions_reached(now));
        } else if job.metadata.deletion_timestamp.is_none() {
            update.event = suspend(job, &mut evaluation.status, now);
        }
    }
    let status = &mut evaluation.status;
    update.changed = update.event.is_some()
        || counts.active != status.active.unwrap_or(0)
        || status.ready != Some(counts.ready)
        || status.terminating != Some(counts.terminating);
    // Zero and absent are one here; ready and terminating are said always.
    status.active = Some(counts.active).filter(|active| *active != 0);
    status.ready = Some(counts.ready);
    status.terminating = Some(counts.terminating);
    update
}

fn completions_reached(now: Timestamp) -> JobCondition {
    let message = "Reached expected number of succeeded pods";
    condition::new(SUCCESS_CRITERIA_MET, "True", "CompletionsReached", message, now)
}

fn is_complete(job: &Job, succeeded: i32, active: i32) -> bool {
    let enough = spec(job).completions.map_or(succeeded > 0, |completions| succeeded >= completions);
    enough && active == 0
}

/// Writes the condition for a suspension or resumption.
fn suspend(job: &Job, status: &mut JobStatus, now: Timestamp) -> Option<(&'static str, &'static str)> {
    let conditions = status.conditions.get_or_insert_default();
    if is_suspended(job) {
        let wanted = condition::new(SUSPENDED, "True", "JobSuspended", "Job suspended", now);
        let changed = condition::set(conditions, wanted);
        if changed {
            status.start_time = None;
        }
        return changed.then_some(("Suspended", "Job suspended"));
    }
    let wanted = condition::new(SUSPENDED, "False", "JobResumed", "Job resumed", now);
    let changed = condition::set(conditions, wanted);
    if changed {
        // The deadline is for the time that the Job is active without a break.
        status.start_time = Some(whole_seconds(now));
    }
    changed.then_some(("Resumed", "Job resumed"))
}
