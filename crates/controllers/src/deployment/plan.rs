//! The plan of one reconcile of a Deployment.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};

use super::decision::{Event, Plan};
use super::rollout::Rollout;
use super::writes::finish;
use super::{condition, history, recreate, rollback, rolling, scale, status};
use crate::object::field::deployment_spec;
use crate::object::selector;

/// The objects that the reconcile read.
#[derive(Debug)]
pub struct Observed<'a> {
    pub deployment: &'a Deployment,
    /// The ReplicaSets that the Deployment has claimed.
    pub replica_sets: &'a [&'a ReplicaSet],
    /// Uids of ReplicaSets that own pods which have not ended; read only for the Recreate strategy.
    pub running: &'a BTreeSet<String>,
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
