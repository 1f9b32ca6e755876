//! Tables: every branch of the Deployment's plan with its numbers.

mod model;
mod rollout;
mod status;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, DeploymentStrategy, ReplicaSet, ReplicaSetSpec,
    ReplicaSetStatus, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::condition::{self, AVAILABLE, PROGRESSING};
use super::*;

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), "web".to_owned())])
}

pub fn template_of(image: &str) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels()), ..Default::default() }),
        spec: Some(PodSpec {
            containers: vec![Container { name: "c".into(), image: Some(image.into()), ..Default::default() }],
            ..Default::default()
        }),
    }
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn amount(text: &str) -> IntOrString {
    text.parse().map_or_else(|_| IntOrString::String(text.into()), IntOrString::Int)
}

/// A Deployment of image `web:new`.
fn deployment(replicas: i32, surge: &str, unavailable: &str) -> Deployment {
    Deployment {
        metadata: ObjectMeta {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("d-uid".into()),
            generation: Some(1),
            ..Default::default()
        },
        spec: DeploymentSpec {
            replicas: Some(replicas),
            selector: LabelSelector { match_labels: Some(labels()), ..Default::default() },
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(amount(surge)),
                    max_unavailable: Some(amount(unavailable)),
                }),
            }),
            template: template_of("web:new"),
            revision_history_limit: Some(10),
            progress_deadline_seconds: Some(600),
            ..Default::default()
        },
        status: None,
    }
}

fn recreate(replicas: i32) -> Deployment {
    let mut deployment = deployment(replicas, "0", "0");
    deployment.spec.strategy =
        Some(DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None });
    deployment
}

/// The `age`-th ReplicaSet, with `replicas` wanted, `actual` present and `available` of them available.
fn set(image: &str, age: i32, replicas: i32, actual: i32, available: i32) -> ReplicaSet {
    let name = format!("web-{age}");
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            uid: Some(format!("{name}-uid")),
            generation: Some(1),
            resource_version: Some("7".into()),
            creation_timestamp: Some(Time(now() - SignedDuration::from_secs(1000 - i64::from(age)))),
            annotations: Some(BTreeMap::from([(REVISION.to_owned(), age.to_string())])),
            ..Default::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(replicas),
            template: Some(template_of(image)),
            ..Default::default()
        },
        status: Some(ReplicaSetStatus {
            replicas: actual,
            ready_replicas: Some(available),
            available_replicas: Some(available),
            terminating_replicas: Some(0),
            observed_generation: Some(1),
            ..Default::default()
        }),
    }
}

fn noted(mut set: ReplicaSet, desired: i32, most: i32) -> ReplicaSet {
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert(DESIRED_REPLICAS.into(), desired.to_string());
    annotations.insert(MAX_REPLICAS.into(), most.to_string());
    set
}

fn run(deployment: &Deployment, sets: &[ReplicaSet], running: &[&str]) -> Plan {
    let running: BTreeSet<String> = running.iter().map(|name| format!("{name}-uid")).collect();
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    plan(&Observed { deployment, replica_sets: &sets, running: &running }, now())
}

/// The sizes that the plan leads to, by name.
fn sizes(sets: &[ReplicaSet], plan: &Plan) -> Vec<i32> {
    let size = |set: &ReplicaSet| {
        let change = plan.change.iter().find(|change| Some(&change.name) == set.metadata.name.as_ref());
        change.and_then(|change| change.replicas).unwrap_or(set.spec.replicas.unwrap())
    };
    sets.iter().map(size).collect()
}

fn progressing(status: &DeploymentStatus) -> (&str, &str) {
    let condition = condition::get(status, PROGRESSING).unwrap();
    (condition.status.as_deref().unwrap(), condition.reason.as_deref().unwrap())
}

fn with_progressing(value: &str, reason: &str, seconds_ago: i64) -> DeploymentStatus {
    let mut status = DeploymentStatus { observed_generation: Some(1), ..Default::default() };
    let then = now() - SignedDuration::from_secs(seconds_ago);
    condition::set(&mut status, condition::new(PROGRESSING, value, reason, String::new(), then));
    status
}
