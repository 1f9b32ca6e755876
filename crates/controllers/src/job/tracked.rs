//! A Job's labels, finalizers and annotations on its pods.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::spec;
use crate::object::pod::{condition, phase};

/// On every pod that is not counted yet.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label of the pods of an indexed Job.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Number of earlier failures of pods with the same index.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Number of earlier failures that the failure policy ignored.
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Whether the pod is not counted yet.
pub fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

pub fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

pub fn is_succeeded(pod: &Pod) -> bool {
    phase(pod) == "Succeeded"
}

/// Whether the pod counts as failed. A terminating pod counts too, because it may never reach the phase, unless the
/// Job replaces only pods that have really failed.
pub fn is_failed(job: &Job, pod: &Pod) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => !replaces_failed_only(job) && pod.metadata.deletion_timestamp.is_some(),
    }
}

/// Whether a pod on its way out is replaced only when it has ended.
pub fn replaces_failed_only(job: &Job) -> bool {
    spec(job).pod_replacement_policy.as_deref() == Some("Failed")
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// The pod's completion index, if it has a sound one.
pub fn index(pod: &Pod) -> Option<i32> {
    annotation(pod, COMPLETION_INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// The completion index, if it is one that the Job asks for.
pub fn wanted_index(job: &Job, pod: &Pod) -> Option<i32> {
    index(pod).filter(|index| *index < spec(job).completions.unwrap_or(0))
}

fn number(pod: &Pod, name: &str) -> i32 {
    annotation(pod, name).and_then(|text| text.parse().ok()).filter(|count| *count >= 0).unwrap_or(0)
}

/// Returns the number of the index's failures before this pod: counted ones and ignored ones.
pub fn index_failures(pod: &Pod) -> (i32, i32) {
    let (counted, ignored) = (number(pod, INDEX_FAILURES), number(pod, INDEX_IGNORED_FAILURES));
    (counted, counted.saturating_add(ignored))
}

/// Returns the end of the pod, as precisely as its status tells.
pub fn finished_at(pod: &Pod) -> Timestamp {
    let unready = condition(pod, "Ready").filter(|ready| ready.status == "False");
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|time| {
        let grace = SignedDuration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0));
        time.0.checked_sub(grace).unwrap_or(time.0)
    });
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    containers_finished_at(pod)
        .or_else(|| unready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0))
        .or(deleted)
        .or(created)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The end of the last container, if all have ended; sidecars end after the others.
fn containers_finished_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let is_sidecar = |status: &&ContainerStatus| sidecars.contains(&status.name.as_str());
    let beside = status.init_container_statuses.iter().flatten().filter(is_sidecar);
    let ends: Option<Vec<Timestamp>> = status
        .container_statuses
        .iter()
        .flatten()
        .chain(beside)
        .map(|container| {
            let ended = container.state.as_ref()?.terminated.as_ref()?;
            ended.finished_at.as_ref().map(|time| time.0)
        })
        .collect();
    ends?.into_iter().max()
}
