//! State between two reconciles: the times since which nodes are missing, and the pods that have ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use setpoint::informer::Store;
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use super::plan::is_out_of_service;

/// Time that a node must be missing before the server is asked: the cache may only be late.
pub const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// The name under which all pods that have ended are looked at together; pods have a namespace.
const ENDED: &str = "ended";

/// State shared by all reconciles.
#[derive(Clone)]
pub struct State {
    shared: Arc<Mutex<Shared>>,
    pods: Store,
    nodes: Store,
    threshold: usize,
}

#[derive(Default)]
struct Shared {
    /// Nodes that pods are bound to and that are not there, and since when.
    missing: BTreeMap<String, Timestamp>,
    /// The pods that have ended, each with its place in the order in which they go.
    ended: BTreeMap<Key, Rank>,
}

/// Evicted pods before others, then by creation.
type Rank = (bool, String);

impl State {
    /// `threshold` pods that have ended may stay.
    pub fn new(pods: Store, nodes: Store, threshold: usize) -> Self {
        State { shared: Arc::default(), pods, nodes, threshold }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder of this lock panics")
    }

    /// Returns the time to wait before asking for a missing node, or `None` if it is over.
    pub fn quarantine(&self, node: &str, now: Timestamp) -> Option<SignedDuration> {
        let since = *self.lock().missing.entry(node.to_owned()).or_insert(now);
        Some(QUARANTINE - now.duration_since(since)).filter(|left| left.is_positive())
    }

    /// The node is there after all.
    pub fn found(&self, node: &str) {
        self.lock().missing.remove(node);
    }

    /// Returns the ended pods beyond the limit, in the order of their deletion.
    pub fn surplus(&self) -> Vec<Key> {
        let shared = self.lock();
        let surplus = shared.ended.len().saturating_sub(self.threshold);
        let mut ranked: Vec<(&Rank, &str, &Key)> =
            shared.ended.iter().map(|(key, rank)| (rank, key.name(), key)).collect();
        if surplus > 0 {
            ranked.sort_unstable();
        }
        ranked.into_iter().take(surplus).map(|(_, _, key)| key.clone()).collect()
    }

    /// Records a change of a pod. Returns the requests that it queues.
    pub fn pod_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let Some(pod) = change.new else {
            if let Some(old) = change.old {
                self.pod_gone(old);
            }
            return Vec::new();
        };
        let mut requests = Vec::new();
        if self.is_candidate(pod) {
            requests.push(pod.key().clone());
        }
        let mut shared = self.lock();
        match rank(pod) {
            Some(rank) => shared.ended.insert(pod.key().clone(), rank),
            None => shared.ended.remove(pod.key()),
        };
        if shared.ended.len() > self.threshold {
            requests.push(Key::cluster(ENDED));
        }
        requests
    }

    fn pod_gone(&self, pod: &Object) {
        let mut shared = self.lock();
        shared.ended.remove(pod.key());
        let Some(node) = node_of(pod).filter(|node| shared.missing.contains_key(node)) else { return };
        // Once its last pod is gone, a missing node is forgotten: a later node of that name gets the whole quarantine
        // again.
        if self.pods.snapshot().iter().all(|other| node_of(other).as_ref() != Some(&node)) {
            shared.missing.remove(&node);
        }
    }

    /// Whether there may be a reason to collect the pod.
    fn is_candidate(&self, pod: &Object) -> bool {
        let Some(node) = node_of(pod) else { return pod.is_terminating() };
        let Some(node) = self.nodes.get(&node) else { return true };
        pod.is_terminating() && node.decode::<Node>().is_ok_and(|node| is_out_of_service(&node))
    }

    /// The pods that a change to a node concerns.
    pub fn node_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let out = |node: Option<&Object>| {
            node.is_some_and(|node| node.decode::<Node>().is_ok_and(|node| is_out_of_service(&node)))
        };
        let Some(node) = change.new else {
            return change.old.map(|node| self.on(node.name(), |_| true)).unwrap_or_default();
        };
        self.found(node.name());
        if !out(Some(node)) || out(change.old) {
            return Vec::new();
        }
        self.on(node.name(), Object::is_terminating)
    }

    fn on(&self, node: &str, wanted: impl Fn(&Object) -> bool) -> Vec<Key> {
        let pods = self.pods.snapshot();
        let bound = pods.iter().filter(|pod| wanted(pod) && node_of(pod).as_deref() == Some(node));
        bound.map(|pod| pod.key().clone()).collect()
    }
}

fn node_of(pod: &Object) -> Option<String> {
    pod.path("spec.nodeName").filter(|node| !node.is_empty())
}

fn rank(pod: &Object) -> Option<Rank> {
    let phase = pod.path("status.phase").unwrap_or_default();
    let evicted = phase == "Failed" && pod.path("status.reason").as_deref() == Some("Evicted");
    let created = || pod.path("metadata.creationTimestamp").unwrap_or_default();
    matches!(phase.as_str(), "Succeeded" | "Failed").then(|| (!evicted, created()))
}
