//! Updates the status from the Jobs that were started.

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};

use super::forget;
use crate::job::finished;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Removes ended Jobs from the list and records the last success. Returns whether the status changed, and the events.
pub fn observe(status: &mut CronJobStatus, jobs: &[&Job]) -> (bool, Vec<Notice>) {
    let mut changed = false;
    let mut notices = Vec::new();
    for job in jobs {
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let Some(end) = finished(job) else {
            if !is_active(status, uid) {
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                notices.push(Notice { warning: true, reason: "UnexpectedJob", message });
            }
            continue;
        };
        if forget(status, uid) {
            changed = true;
            let message = format!("Saw completed job: {name}, condition: {}", end.type_);
            notices.push(Notice { warning: false, reason: "SawCompletedJob", message });
        }
        let completed = job.status.as_ref().and_then(|status| status.completion_time.clone());
        let later = completed.filter(|time| {
            end.type_ == "Complete" && status.last_successful_time.as_ref().is_none_or(|last| time.0 > last.0)
        });
        if later.is_some() {
            status.last_successful_time = later;
            changed = true;
        }
    }
    (changed, notices)
}

/// Whether the Job is in the list of active Jobs.
pub fn is_active(status: &CronJobStatus, uid: &str) -> bool {
    status.active.iter().flatten().any(|job| job.uid.as_deref() == Some(uid))
}

/// Whether this CronJob controls the Job.
pub fn controls(cron: &CronJob, job: &Job) -> bool {
    crate::children::claim::controller_of(&job.metadata)
        .is_some_and(|owner| Some(&owner.uid) == cron.metadata.uid.as_ref())
}
