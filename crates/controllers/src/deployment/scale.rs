//! Scaling without rolling: one ReplicaSet follows the Deployment; several share the change in proportion.

use std::cmp::Reverse;

use super::rollout::Rollout;
use super::{DESIRED_REPLICAS, MAX_REPLICAS};

/// Whether the Deployment's size changed since its ReplicaSets were last scaled.
pub fn is_scaling_event(rollout: &Rollout<'_>) -> bool {
    rollout.active().into_iter().any(|index| {
        let noted = rollout.sets[index].count_annotation(DESIRED_REPLICAS);
        noted.is_some_and(|noted| noted != rollout.desired())
    })
}

/// Adapts the sizes to the Deployment's.
pub fn scale(rollout: &mut Rollout<'_>) {
    if let Some(only) = active_or_latest(rollout) {
        // Also when only the note is outdated, or the next look would take it for a scaling event again.
        let noted = rollout.sets[only].count_annotation(DESIRED_REPLICAS);
        if rollout.sets[only].replicas != rollout.desired()
            || noted.is_some_and(|noted| noted != rollout.desired())
        {
            rollout.scale_set(only, rollout.desired());
        }
        return;
    }
    if is_saturated(rollout) {
        for index in rollout.old() {
            if rollout.sets[index].replicas > 0 {
                rollout.scale_set(index, 0);
            }
        }
        return;
    }
    if rollout.is_rolling() {
        scale_in_proportion(rollout);
    }
}

/// The one ReplicaSet that wants pods; if none does, the new one, else the youngest.
fn active_or_latest(rollout: &Rollout<'_>) -> Option<usize> {
    match rollout.active()[..] {
        [] => rollout.new.or(rollout.sets.len().checked_sub(1)),
        [only] => Some(only),
        _ => None,
    }
}

/// Whether the new ReplicaSet alone has the size that the Deployment asks for.
fn is_saturated(rollout: &Rollout<'_>) -> bool {
    let desired = rollout.desired();
    rollout.new.is_some_and(|new| {
        let set = &rollout.sets[new];
        set.replicas == desired
            && set.count_annotation(DESIRED_REPLICAS) == Some(desired)
            && set.available() == desired
    })
}

fn scale_in_proportion(rollout: &mut Rollout<'_>) {
    let desired = rollout.desired();
    let allowed = if desired > 0 { desired + rollout.max_surge() } else { 0 };
    let mut order = rollout.active();
    let to_add = allowed - order.iter().map(|index| rollout.sets[*index].replicas).sum::<i32>();
    // Sets are in order of age: among equals the younger grows first and the older shrinks first.
    match to_add {
        1.. => order.sort_by_key(|index| (Reverse(rollout.sets[*index].replicas), Reverse(*index))),
        ..=-1 => order.sort_by_key(|index| (Reverse(rollout.sets[*index].replicas), *index)),
        0 => {}
    }
    let mut added = 0;
    let mut sizes = Vec::with_capacity(order.len());
    for &index in &order {
        let share = share(rollout, index, to_add, to_add - added);
        added += share;
        sizes.push(rollout.sets[index].replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    for (index, size) in order.into_iter().zip(sizes) {
        rollout.scale_set(index, size);
    }
}

/// Returns one ReplicaSet's part of the change, at most `left`.
fn share(rollout: &Rollout<'_>, index: usize, to_add: i32, left: i32) -> i32 {
    if rollout.sets[index].replicas == 0 || left == 0 {
        return 0;
    }
    let fraction = fraction(rollout, index);
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn fraction(rollout: &Rollout<'_>, index: usize) -> i32 {
    let set = &rollout.sets[index];
    if rollout.desired() == 0 {
        return -set.replicas;
    }
    let most = rollout.desired() + rollout.max_surge();
    let noted = set.count_annotation(MAX_REPLICAS).filter(|noted| *noted != 0);
    let before = noted.or(rollout.status.replicas).unwrap_or(0);
    if before == 0 {
        return 0;
    }
    let size = f64::from(set.replicas) * f64::from(most) / f64::from(before);
    size.round() as i32 - set.replicas
}
