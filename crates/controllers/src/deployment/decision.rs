//! The result of a plan: the writes to the Deployment and its ReplicaSets, and the events.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;

/// The writes, in this order.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Option<ReplicaSet>,
    pub change: Vec<Change>,
    /// Names and uids.
    pub delete: Vec<(String, String)>,
    pub rollback: Option<Rollback>,
    /// The Deployment's revision annotation, when it must change.
    pub revision: Option<String>,
    pub status: Option<DeploymentStatus>,
    pub events: Vec<Event>,
    /// When to look again if nothing happens.
    pub requeue: Option<Duration>,
}

/// A change to one existing ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub replicas: Option<i32>,
    pub min_ready_seconds: Option<i32>,
    pub annotations: BTreeMap<String, String>,
}

/// A change to the Deployment itself: its template and annotations from an earlier revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollback {
    /// `None` if only the rollback request is removed.
    pub template: Option<PodTemplateSpec>,
    pub annotations: BTreeMap<String, String>,
}

/// An event about the Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    pub fn normal(reason: &'static str, message: String) -> Self {
        Event { warning: false, reason, message }
    }

    pub fn warning(reason: &'static str, message: String) -> Self {
        Event { warning: true, reason, message }
    }
}
