//! A Job's conditions.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};

use crate::object::time::whole_seconds;

pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const SUSPENDED: &str = "Suspended";

/// A condition that begins now.
pub fn new(type_: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(whole_seconds(now)),
        last_transition_time: Some(whole_seconds(now)),
    }
}

/// A true condition of another type for the same reason.
pub fn as_type(type_: &str, cause: &JobCondition, now: Timestamp) -> JobCondition {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    new(type_, "True", &text(&cause.reason), &text(&cause.message), now)
}

/// Sets a condition; whether that changed anything. From nothing to false is no change.
pub fn set(conditions: &mut Vec<JobCondition>, wanted: JobCondition) -> bool {
    match conditions.iter_mut().find(|known| known.type_ == wanted.type_) {
        Some(known) => {
            let same = known.status == wanted.status
                && known.reason == wanted.reason
                && known.message == wanted.message;
            if !same {
                *known = wanted;
            }
            !same
        }
        None if wanted.status == "False" => false,
        None => {
            conditions.push(wanted);
            true
        }
    }
}

/// A condition of the Job, if it is true.
pub fn is_true<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Returns the condition with which the Job ended, if it did.
pub fn finished(job: &Job) -> Option<&JobCondition> {
    is_true(job, COMPLETE).or_else(|| is_true(job, FAILED))
}
