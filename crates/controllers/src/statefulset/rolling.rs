//! Which pods of an earlier revision go now.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::identity::revision;
use super::view::{View, partition};
use crate::object::field::stateful_set_spec;
use crate::object::percent::{Round, scaled};

/// Returns the number of pods that an update may make unavailable. At least one.
fn max_unavailable(set: &StatefulSet) -> usize {
    let spec = stateful_set_spec(set);
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let value = strategy.and_then(|rolling| rolling.max_unavailable.as_ref());
    usize::try_from(scaled(value, spec.replicas.unwrap_or(1), Round::Down)).unwrap_or(0).max(1)
}

/// The pods to delete, the last first. `replicas` are those of the wanted ordinals.
pub fn outdated(view: &View<'_>, replicas: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let Some(partition) = partition(view.set) else { return Vec::new() };
    let is_old =
        |pod: &Arc<Pod>| revision(pod) != view.update.name && pod.metadata.deletion_timestamp.is_none();
    let unavailable = replicas.iter().filter(|pod| view.is_unavailable(pod)).count();
    let budget = max_unavailable(view.set).saturating_sub(unavailable);
    let candidates = || replicas.iter().skip(partition).rev().filter(|pod| is_old(pod));
    if !view.is_parallel() {
        return candidates().take(budget).cloned().collect();
    }
    // Unavailable pods cost nothing, so they go first, whatever the budget.
    let broken = candidates().filter(|pod| view.is_unavailable(pod));
    let serving = candidates().filter(|pod| !view.is_unavailable(pod)).take(budget);
    broken.chain(serving).cloned().collect()
}
