//! Rolling update: grow the new ReplicaSet within surge, shrink the old within unavailability.

use super::history;
use super::rollout::Rollout;
use super::status;

/// Plans one step of the rollout. A step that scaled up leaves scaling down to the next one.
pub fn roll(rollout: &mut Rollout<'_>) {
    history::create_new(rollout);
    let new = rollout.new.expect("create_new leaves a new ReplicaSet");
    if scale_new(rollout, new) || scale_old(rollout, new) {
        return;
    }
    if status::is_complete(rollout.deployment, &rollout.status) {
        history::clean_up(rollout);
    }
}

fn scale_new(rollout: &mut Rollout<'_>, new: usize) -> bool {
    let (desired, present) = (rollout.desired(), rollout.sets[new].replicas);
    if present == desired {
        return false;
    }
    let size = if present > desired { desired } else { rollout.size_of_new(new) };
    size != present && rollout.scale_set(new, size)
}

fn scale_old(rollout: &mut Rollout<'_>, new: usize) -> bool {
    let active: Vec<usize> =
        rollout.old().into_iter().filter(|index| rollout.sets[*index].replicas > 0).collect();
    if active.is_empty() {
        return false;
    }
    let least = rollout.desired() - rollout.max_unavailable();
    let not_yet = rollout.sets[new].replicas - rollout.sets[new].available();
    let most = rollout.total_replicas() - least - not_yet;
    if most <= 0 {
        return false;
    }
    let unhealthy = remove_unhealthy(rollout, &active, most);
    let healthy = remove_healthy(rollout, &active, new, least, most - unhealthy);
    unhealthy + healthy > 0
}

/// Pods that are not available go first: removing them costs no availability. Gives how many go.
fn remove_unhealthy(rollout: &mut Rollout<'_>, active: &[usize], most: i32) -> i32 {
    let mut left = most;
    for &index in active {
        let set = &rollout.sets[index];
        let unhealthy = (set.replicas - set.available()).min(left);
        if unhealthy > 0 {
            left -= unhealthy;
            rollout.scale_set(index, rollout.sets[index].replicas - unhealthy);
        }
    }
    most - left
}

/// Available pods go as long as enough remain. Those that are no longer wanted do not count, though they may still be
/// there and be reported: kube-controller-manager counts them, and with reports that lag may have too few for a moment.
fn remove_healthy(rollout: &mut Rollout<'_>, active: &[usize], new: usize, least: i32, most: i32) -> i32 {
    let remaining = |index: &usize| rollout.sets[*index].available().min(rollout.sets[*index].replicas);
    let available: i32 = active.iter().chain([&new]).map(remaining).sum();
    let all = (available - least).min(most).max(0);
    let mut left = all;
    for &index in active {
        let replicas = rollout.sets[index].replicas;
        let count = replicas.min(left);
        if count > 0 {
            left -= count;
            rollout.scale_set(index, replicas - count);
        }
    }
    all - left
}
