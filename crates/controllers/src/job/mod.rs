//! Jobs: pods that run until enough of them have succeeded, each counted once.
//!
//! A pod keeps the tracking finalizer until the Job's status lists it. The controller writes the status before it
//! removes the finalizer, and raises the count afterwards. If it is killed in between, the next run continues from
//! there.

mod reconcile;
mod orphan;
mod release;
mod manage;
mod status_update;
mod template;
mod track;
mod evaluate;
mod backoff;
mod condition;
mod policy;
mod indexes;
mod tracked;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use k8s_openapi::api::batch::v1::{Job, JobSpec};

pub(crate) use condition::finished;
pub(crate) use reconcile::register;

/// The manager of a Job that names none.
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";

/// A Job's spec; one without asks for nothing.
pub(crate) fn spec(job: &Job) -> &JobSpec {
    static NONE: LazyLock<JobSpec> = LazyLock::new(JobSpec::default);
    job.spec.as_ref().unwrap_or(&NONE)
}

fn is_suspended(job: &Job) -> bool {
    spec(job).suspend == Some(true)
}

fn is_indexed(job: &Job) -> bool {
    spec(job).completion_mode.as_deref() == Some("Indexed")
}

/// Whether another controller manages the Job.
fn is_foreign(job: &Job) -> bool {
    spec(job).managed_by.as_deref().is_some_and(|name| name != CONTROLLER_NAME)
}

fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
