//! Recreate: every old pod ends before the first new one begins.

use std::collections::BTreeSet;

use super::rollout::Rollout;
use super::{history, status};

/// Plans one step. `running` names the ReplicaSets whose pods have not all ended.
pub fn roll(rollout: &mut Rollout<'_>, running: &BTreeSet<String>) {
    let old = rollout.old();
    let active: Vec<usize> = old.iter().copied().filter(|index| rollout.sets[*index].replicas > 0).collect();
    let mut scaled = false;
    for index in active {
        scaled |= rollout.scale_set(index, 0);
    }
    let lingering = old.iter().map(|index| &rollout.sets[*index]);
    if scaled || lingering.clone().any(|set| set.actual() > 0 || running.contains(set.uid())) {
        return;
    }
    history::create_new(rollout);
    let new = rollout.new.expect("create_new leaves a new ReplicaSet");
    if rollout.sets[new].replicas != rollout.desired() {
        rollout.scale_set(new, rollout.desired());
    }
    if status::is_complete(rollout.deployment, &rollout.status) {
        history::clean_up(rollout);
    }
}
