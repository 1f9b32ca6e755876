//! The Job of one time.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::spec;
use crate::children::claim::controller_reference;

/// When the Job was due.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The name says the minute: two Jobs of one time cannot be.
pub fn job_name(cron: &CronJob, at: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name.as_deref().unwrap_or_default(), at.as_second() / 60)
}

/// The Job of this time.
pub fn job(cron: &CronJob, at: Timestamp, zone: &TimeZone) -> Job {
    let template = spec(cron).job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), rfc3339(at, zone));
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(cron, at)),
            namespace: cron.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference("batch/v1", "CronJob", &cron.metadata)]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    }
}

fn rfc3339(at: Timestamp, zone: &TimeZone) -> String {
    let local = at.to_zoned(zone.clone());
    if local.offset().is_zero() {
        return local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }
    local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Returns the status's reference to the Job.
pub fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        ..Default::default()
    }
}
