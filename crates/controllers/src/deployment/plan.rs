//! The plan of one reconcile of a Deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::rollout::Rollout;
use super::{condition, history, recreate, rollback, rolling, scale, status};
use crate::field::{deployment_spec, replica_set_spec_mut};
use crate::selector;

/// The objects that the reconcile read.
#[derive(Debug)]
pub struct Observed<'a> {
    pub deployment: &'a Deployment,
    /// The ReplicaSets that the Deployment has claimed.
    pub replica_sets: &'a [&'a ReplicaSet],
    /// Uids of ReplicaSets that own pods which have not ended; read only for the Recreate strategy.
    pub running: &'a BTreeSet<String>,
}

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

/// Decides. Pure: the same observation at the same time gives the same plan.
pub fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let deployment = observed.deployment;
    if selector::is_empty(&deployment_spec(deployment).selector) {
        return selecting_all(deployment);
    }
    let mut rollout = Rollout::new(deployment, observed.replica_sets, now);
    if deployment.metadata.deletion_timestamp.is_some() {
        history::sync_revision(&mut rollout);
        return finish(rollout, status::plain);
    }
    check_paused(&mut rollout);
    if rollout.spec.paused == Some(true) {
        return scale_only(rollout);
    }
    if let Some(revision) = rollback::requested(deployment) {
        return rollback::plan(rollout, revision);
    }
    history::sync_revision(&mut rollout);
    if scale::is_scaling_event(&rollout) {
        return scale_only(rollout);
    }
    if rollout.is_rolling() {
        rolling::roll(&mut rollout);
    } else {
        recreate::roll(&mut rollout, observed.running);
    }
    finish(rollout, status::of_rollout)
}

/// A Deployment that selects everything would fight every other one, so it is left alone.
fn selecting_all(deployment: &Deployment) -> Plan {
    let message = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
    let generation = deployment.metadata.generation.unwrap_or(0);
    let before = deployment.status.clone().unwrap_or_default();
    let behind = before.observed_generation.unwrap_or(0) < generation;
    Plan {
        events: vec![Event::warning("SelectingAll", message)],
        status: behind.then_some(DeploymentStatus { observed_generation: Some(generation), ..before }),
        ..Plan::default()
    }
}

/// While paused nothing times out: the condition says Unknown until the Deployment is resumed and moves.
fn check_paused(rollout: &mut Rollout<'_>) {
    if condition::progress_deadline(rollout.deployment).is_none() {
        return;
    }
    let reason = condition::reason(&rollout.status, condition::PROGRESSING);
    if reason == condition::PROGRESS_DEADLINE_EXCEEDED {
        return;
    }
    let (paused, said) = (rollout.spec.paused == Some(true), reason == condition::PAUSED);
    let (reason, message) = match (paused, said) {
        (true, false) => (condition::PAUSED, "Deployment is paused"),
        (false, true) => (condition::RESUMED, "Deployment is resumed"),
        _ => return,
    };
    let unknown = condition::new(condition::PROGRESSING, "Unknown", reason, message.to_owned(), rollout.now);
    condition::set(&mut rollout.status, unknown);
}

/// Sizes follow the Deployment's, and nothing rolls.
fn scale_only(mut rollout: Rollout<'_>) -> Plan {
    history::sync_revision(&mut rollout);
    scale::scale(&mut rollout);
    if rollout.spec.paused == Some(true) && rollback::requested(rollout.deployment).is_none() {
        history::clean_up(&mut rollout);
    }
    finish(rollout, status::plain)
}

/// Turns the worked state into writes.
pub(super) fn finish(rollout: Rollout<'_>, status: fn(&Rollout<'_>) -> DeploymentStatus) -> Plan {
    let computed = status::normal(status(&rollout));
    let before = status::normal(rollout.deployment.status.clone().unwrap_or_default());
    let requeue = status::progress_check(&rollout, &computed);
    Plan { status: (computed != before).then_some(computed), requeue, ..writes(rollout) }
}

/// The writes to ReplicaSets, and what goes with them.
pub(super) fn writes(mut rollout: Rollout<'_>) -> Plan {
    let change = rollout
        .sets
        .iter()
        .enumerate()
        .filter(|(index, _)| !rollout.creating || Some(*index) != rollout.new)
        .filter(|(index, _)| !rollout.deleted.contains(index))
        .filter_map(|(_, set)| set.change())
        .collect();
    let delete = rollout.deleted.iter().map(|index| &rollout.sets[*index]);
    let delete = delete.map(|set| (set.name().to_owned(), set.uid().to_owned())).collect();
    let create = rollout.new.filter(|_| rollout.creating).map(|index| {
        let set = rollout.sets.swap_remove(index);
        let mut created = set.observed.into_owned();
        created.metadata.annotations = Some(set.annotations);
        replica_set_spec_mut(&mut created).replicas = Some(set.replicas);
        created
    });
    let shown = rollout.deployment.metadata.annotations.as_ref().and_then(|all| all.get(super::REVISION));
    let revision = rollout.revision.filter(|revision| Some(revision) != shown);
    Plan { create, change, delete, revision, events: rollout.events, ..Plan::default() }
}
