//! The observed state of a StatefulSet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::identity::{new_pod, ordinal, ordinals};
use super::revision::Version;
use crate::object::field::stateful_set_spec;
use crate::object::pod::{is_available, is_ready, phase};

/// The observed state.
pub struct View<'a> {
    pub set: &'a StatefulSet,
    pub current: &'a Version,
    pub update: &'a Version,
    pub pods: &'a [Arc<Pod>],
    /// The claims of the namespace, by name.
    pub claims: &'a BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub now: Timestamp,
}

/// Whether the server knows the pod.
pub fn is_created(pod: &Pod) -> bool {
    !phase(pod).is_empty()
}

pub fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

impl View<'_> {
    pub fn min_ready_seconds(&self) -> i32 {
        stateful_set_spec(self.set).min_ready_seconds.unwrap_or(0)
    }

    pub fn is_parallel(&self) -> bool {
        stateful_set_spec(self.set).pod_management_policy.as_deref() == Some("Parallel")
    }

    /// Whether a pod is not to be counted on.
    pub fn is_unavailable(&self, pod: &Pod) -> bool {
        is_going(pod) || !is_available(pod, self.min_ready_seconds(), self.now)
    }

    pub fn is_serving(&self, pod: &Pod) -> bool {
        phase(pod) == "Running" && is_ready(pod) && is_available(pod, self.min_ready_seconds(), self.now)
    }

    /// The pod of every wanted ordinal: the one there is, or the one to create.
    pub fn replicas(&self) -> Vec<Arc<Pod>> {
        let find = |wanted: i64| self.pods.iter().find(|pod| ordinal(pod) == Some(wanted)).cloned();
        let new = |ordinal: i64| Arc::new(new_pod(self.set, self.version_for(ordinal), ordinal));
        ordinals(self.set).map(|ordinal| find(ordinal).unwrap_or_else(|| new(ordinal))).collect()
    }

    /// The pods that are too many, the last first.
    pub fn condemned(&self) -> Vec<Arc<Pod>> {
        let wanted = ordinals(self.set);
        let surplus = |pod: &&Arc<Pod>| ordinal(pod).is_some_and(|ordinal| !wanted.contains(&ordinal));
        let mut condemned: Vec<Arc<Pod>> = self.pods.iter().filter(surplus).cloned().collect();
        condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        condemned
    }

    /// Pods below the partition come back as they were.
    fn version_for(&self, ordinal: i64) -> &Version {
        let kept = partition(self.set).is_some_and(|partition| {
            ordinal < ordinals(self.set).start + i64::try_from(partition).unwrap_or(i64::MAX)
        });
        if kept { self.current } else { self.update }
    }
}

/// Returns the number of pods, from the first, that keep their revision. `None` if pods are not replaced
/// automatically.
pub fn partition(set: &StatefulSet) -> Option<usize> {
    let strategy = stateful_set_spec(set).update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition);
    Some(partition.and_then(|partition| usize::try_from(partition).ok()).unwrap_or(0))
}
