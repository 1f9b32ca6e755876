//! A pod of a Job.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::policy::{Verdict, judge_failure};
use super::spec;
use super::tracked::{COMPLETION_INDEX, FINALIZER, INDEX_FAILURES, INDEX_IGNORED_FAILURES, index_failures};
use crate::children::claim::controller_reference;

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum length that the server keeps of a generated name's prefix.
const MOST_PREFIX: usize = 58;

/// Which pod to make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted<'a> {
    pub index: i32,
    /// The failed pod that it replaces, where failures are counted by index.
    pub replaces: Option<&'a Pod>,
}

/// A pod without an index.
pub fn plain(job: &Job) -> Pod {
    let template = spec(job).template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut finalizers = meta.finalizers.unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", name(job))),
            namespace: job.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![controller_reference("batch/v1", "Job", &job.metadata)]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// The pod of an index.
pub fn indexed(job: &Job, wanted: &Wanted<'_>) -> Pod {
    let mut pod = plain(job);
    let index = wanted.index.to_string();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.to_owned(), index.clone());
    if spec(job).backoff_limit_per_index.is_some() {
        let (counted, ignored) = wanted.replaces.map_or((0, 0), |replaced| failures_with(job, replaced));
        annotations.insert(INDEX_FAILURES.to_owned(), counted.to_string());
        if ignored > 0 {
            annotations.insert(INDEX_IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    pod.metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index);
    let end = format!("-{}-", wanted.index);
    let most = MOST_PREFIX - end.len();
    // Names of Jobs are ASCII.
    pod.metadata.generate_name = Some(format!("{}{end}", name(job).get(..most).unwrap_or(name(job))));
    if let Some(pod_spec) = &mut pod.spec {
        pod_spec.hostname = Some(format!("{}-{}", name(job), wanted.index));
        pod_spec.init_containers.iter_mut().flatten().for_each(tell_index);
        pod_spec.containers.iter_mut().for_each(tell_index);
    }
    pod
}

/// The failures of an index with that of the pod, counted and ignored.
fn failures_with(job: &Job, replaced: &Pod) -> (i32, i32) {
    let (counted, all) = index_failures(replaced);
    let ignored = all - counted;
    match judge_failure(job, replaced) {
        Verdict::Ignore => (counted, ignored.saturating_add(1)),
        _ => (counted.saturating_add(1), ignored),
    }
}

fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == INDEX_VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{COMPLETION_INDEX}']"),
        ..Default::default()
    };
    variables.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..Default::default() }),
        ..Default::default()
    });
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}
