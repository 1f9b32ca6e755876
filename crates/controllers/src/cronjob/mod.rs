//! CronJobs: a Job at every time of a schedule.

mod reconcile;
mod decide;
mod history;
mod observe;
mod template;
mod zone;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, CronJobStatus};

use crate::object::field::Field;

pub(crate) use reconcile::register;

/// A CronJob's spec; one without asks for nothing.
fn spec(cron: &CronJob) -> &CronJobSpec {
    static NONE: LazyLock<CronJobSpec> = LazyLock::new(CronJobSpec::default);
    cron.spec.value().unwrap_or(&NONE)
}

/// Removes a Job from the list of active Jobs. Returns whether the list contained it.
fn forget(status: &mut CronJobStatus, uid: &str) -> bool {
    let Some(active) = &mut status.active else { return false };
    let before = active.len();
    active.retain(|job| job.uid.as_deref() != Some(uid));
    let forgot = active.len() < before;
    status.active = status.active.take().filter(|active| !active.is_empty());
    forgot
}
