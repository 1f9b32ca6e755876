//! Jobs that ended go when their time to live is over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Reconciler, SetupError,
};

use crate::job;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<Job>(manager)
        .named("ttl-after-finished-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(TtlAfterFinished)?;
    Ok(())
}

struct TtlAfterFinished;

impl Reconciler for TtlAfterFinished {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let seen = client.get::<Job>(&key).await?;
        match seen.and_then(|job| left(&job, ctx.now())) {
            None => return Ok(Action::done()),
            Some(left) if !left.is_zero() => return Ok(Action::requeue_after(left)),
            Some(_) => {}
        }
        // The time to live may have been changed meanwhile: asked of the server before anything is lost.
        let Some(job) = client.live().get::<Job>(&key).await? else { return Ok(Action::done()) };
        match left(&job, ctx.now()) {
            Some(left) if left.is_zero() => {
                let options = DeleteOptions::foreground().uid(job.metadata.uid.clone().unwrap_or_default());
                client.delete_with::<Job>(&key, &options).await.ignore_not_found()?;
                Ok(Action::done())
            }
            left => Ok(left.map_or(Action::done(), Action::requeue_after)),
        }
    }
}

/// Returns the remaining life of the Job, if it has ended and has a limit.
fn left(job: &Job, now: Timestamp) -> Option<Duration> {
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let end = job::finished(job)?.last_transition_time.as_ref()?.0;
    let limit = SignedDuration::from_secs(job::spec(job).ttl_seconds_after_finished?.into());
    Some(Duration::try_from(limit - now.duration_since(end)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_lives_so_long_after_its_end() {
        let now: Timestamp = "2026-01-01T00:00:40Z".parse().unwrap();
        for (limit, condition, going, expected) in [
            (json!(60), "Complete", false, Some(20)),
            (json!(60), "Failed", false, Some(20)),
            (json!(30), "Complete", false, Some(0)),
            (json!(0), "Complete", false, Some(0)),
            (json!(null), "Complete", false, None),
            (json!(60), "SuccessCriteriaMet", false, None),
            (json!(60), "Complete", true, None),
        ] {
            let mut job = json!({ "metadata": {}, "spec": { "template": {}, "ttlSecondsAfterFinished": limit },
                "status": { "conditions": [{ "type": condition, "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
            if going {
                job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:10Z");
            }
            let job: Job = serde_json::from_value(job).unwrap();
            assert_eq!(left(&job, now), expected.map(Duration::from_secs), "{limit} {condition}");
        }
    }
}
