//! Which Jobs that ended are kept.

use k8s_openapi::api::batch::v1::{CronJob, Job};

use super::spec;
use crate::job::finished;

/// The Jobs that are too many, the oldest of their sort.
pub fn surplus<'a>(cron: &CronJob, jobs: &[&'a Job]) -> Vec<&'a Job> {
    let spec = spec(cron);
    let limits =
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)];
    let mut surplus = Vec::new();
    for (end, limit) in limits {
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
        let ended = |job: &&Job| finished(job).is_some_and(|condition| condition.type_ == end);
        let mut ended: Vec<&Job> = jobs.iter().copied().filter(ended).collect();
        ended.sort_by_key(|job| {
            let started =
                job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            (started.is_none(), started, job.metadata.name.clone())
        });
        let most = ended.len().saturating_sub(limit);
        surplus.extend(ended.into_iter().take(most));
    }
    surplus
}
