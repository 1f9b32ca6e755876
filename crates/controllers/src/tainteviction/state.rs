//! The tainted nodes, and the pods with a set deletion time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use setpoint::informer::{Store, Uid};
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use super::plan::no_execute;

/// State shared by all reconciles.
#[derive(Clone)]
pub struct State {
    shared: Arc<Mutex<Shared>>,
    pods: Store,
}

#[derive(Default)]
struct Shared {
    tainted: BTreeSet<String>,
    /// When pods go: counted from when their node was first seen tainted, so it must outlive one look.
    deletion_times: BTreeMap<Key, (Uid, Timestamp)>,
}

impl State {
    /// `pods` is the cache of pods.
    pub fn new(pods: Store) -> Self {
        State { shared: Arc::default(), pods }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder of this lock panics")
    }

    /// Returns the deletion time that was set for the pod.
    pub fn deletion_time(&self, key: &Key, uid: &Uid) -> Option<Timestamp> {
        self.lock().deletion_times.get(key).filter(|(known, _)| known == uid).map(|(_, at)| *at)
    }

    /// Records the deletion time of a pod.
    pub fn set_deletion_time(&self, key: &Key, uid: &Uid, at: Timestamp) {
        self.lock().deletion_times.insert(key.clone(), (uid.clone(), at));
    }

    /// Forgets the deletion time of a pod that stays or is gone. Returns whether a time was set.
    pub fn clear_deletion_time(&self, key: &Key) -> bool {
        self.lock().deletion_times.remove(key).is_some()
    }

    /// The pod, where its node is tainted or it waits to go.
    pub fn pod_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let Some(pod) = change.object() else { return Vec::new() };
        let shared = self.lock();
        // Most clusters have no such taint: their pods are not read.
        if shared.tainted.is_empty() && shared.deletion_times.is_empty() {
            return Vec::new();
        }
        let concerned = shared.deletion_times.contains_key(pod.key())
            || pod.path("spec.nodeName").is_some_and(|node| shared.tainted.contains(&node));
        concerned.then(|| pod.key().clone()).into_iter().collect()
    }

    /// Returns the pods of a node whose NoExecute taints changed. A deleted node affects no pods here: podgc collects
    /// them.
    pub fn node_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let taints = |node: Option<&Object>| {
            node.and_then(|node| node.decode::<Node>().ok()).map(|node| no_execute(&node)).unwrap_or_default()
        };
        let Some(node) = change.new else {
            if let Some(old) = change.old {
                self.lock().tainted.remove(old.name());
            }
            return Vec::new();
        };
        let new = taints(Some(node));
        if new == taints(change.old) {
            return Vec::new();
        }
        // Noted before the pods are listed: one that is bound meanwhile finds the note.
        let _ = match new.is_empty() {
            true => self.lock().tainted.remove(node.name()),
            false => self.lock().tainted.insert(node.name().to_owned()),
        };
        let pods = self.pods.snapshot();
        let bound = pods.iter().filter(|pod| pod.path("spec.nodeName").as_deref() == Some(node.name()));
        bound.map(|pod| pod.key().clone()).collect()
    }
}
