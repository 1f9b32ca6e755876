//! Turns the worked state of a rollout into the writes of a plan.

use k8s_openapi::api::apps::v1::DeploymentStatus;

use super::decision::Plan;
use super::rollout::Rollout;
use super::status;
use crate::object::field::replica_set_spec_mut;

/// Turns the worked state into writes.
pub fn finish(rollout: Rollout<'_>, status: fn(&Rollout<'_>) -> DeploymentStatus) -> Plan {
    let computed = status::normal(status(&rollout));
    let before = status::normal(rollout.deployment.status.clone().unwrap_or_default());
    let requeue = status::progress_check(&rollout, &computed);
    Plan { status: (computed != before).then_some(computed), requeue, ..writes(rollout) }
}

/// The writes to ReplicaSets, and what goes with them.
pub fn writes(mut rollout: Rollout<'_>) -> Plan {
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
