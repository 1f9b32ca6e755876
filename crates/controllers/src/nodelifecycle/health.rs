//! When each node was last heard of: by its lease, or by the heartbeat in its status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use setpoint::clock::Clock;
use setpoint::informer::Store;
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use super::zone::Pace;
use crate::object::node;

/// Time that a node may be silent.
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// Time that a new node may be silent before its first report.
const STARTUP_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// State shared by all reconciles.
#[derive(Clone)]
pub struct State {
    known: Arc<Mutex<Known>>,
    nodes: Store,
    clock: Clock,
}

/// Knowledge about all nodes.
#[derive(Default)]
pub struct Known {
    nodes: BTreeMap<String, Health>,
    /// The pace of tainting, by zone.
    pub pace: Pace,
}

/// Knowledge about one node.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// When it was last heard of, by our clock: nodes' clocks may differ.
    heard: Timestamp,
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    uid: Option<String>,
    /// Whether the node's pods were marked as not ready.
    pub marked_pods: bool,
}

impl State {
    /// `nodes` is the cache of nodes.
    pub fn new(nodes: Store, clock: Clock) -> Self {
        State { known: Arc::default(), nodes, clock }
    }

    /// Locks the knowledge. Do not hold the guard over an await.
    pub fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of this lock panics")
    }

    /// Records a lease. Queues its node only if the node counted as silent.
    pub fn lease_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let Some(lease) = change.new else { return Vec::new() };
        let mut known = self.lock();
        let Some(health) = known.nodes.get_mut(lease.name()) else { return Vec::new() };
        let now = self.clock.now();
        let was_silent = health.silent_at(GRACE) <= now;
        health.hear_lease(renewal(lease), now);
        was_silent.then(|| Key::cluster(lease.name())).into_iter().collect()
    }

    /// Returns the node. If a node becomes or ceases to be ready, returns all nodes, because their number decides the
    /// pace.
    pub fn node_changed(&self, change: &Change<'_>) -> Vec<Key> {
        let is_ready = |object: Option<&Object>| {
            object.and_then(|object| object.decode::<Node>().ok()).is_some_and(|node| node::is_ready(&node))
        };
        if is_ready(change.old) == is_ready(change.new) {
            return change.object().map(|node| Key::cluster(node.name())).into_iter().collect();
        }
        let nodes = self.nodes.snapshot();
        let all = nodes.iter().chain(change.old).map(|node| Key::cluster(node.name()));
        all.collect()
    }
}

/// When a lease was renewed, as it says.
fn renewal(lease: &Object) -> Option<Timestamp> {
    lease.path("spec.renewTime")?.parse().ok()
}

impl Known {
    /// Reads a node's status. Returns whether the node is new here.
    pub fn observe(&mut self, node: &Node, lease: Option<Timestamp>, now: Timestamp) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let is_new = !self.nodes.contains_key(&name);
        let health = self.nodes.entry(name).or_insert_with(|| Health::first(node, now));
        let ready = node::condition(node, "Ready");
        let heartbeat = ready.and_then(|ready| ready.last_heartbeat_time.as_ref()).map(|time| time.0);
        if heartbeat.is_some() && heartbeat != health.heartbeat && !is_new {
            health.heard = now;
        }
        health.heartbeat = heartbeat;
        health.hear_lease(lease, now);
        is_new
    }

    /// Returns the time that the node may still be silent, or `None` if it was silent for too long.
    pub fn patience(&self, node: &Node, now: Timestamp) -> Option<SignedDuration> {
        let health = self.nodes.get(node.metadata.name.as_deref()?)?;
        let grace = if node::condition(node, "Ready").is_some() { GRACE } else { STARTUP_GRACE };
        Some(health.silent_at(grace).duration_since(now)).filter(|left| left.is_positive())
    }

    /// Whether the lease is another than was heard: a cache that is late must not condemn a node.
    pub fn is_news(&self, node: &str, lease: Option<Timestamp>) -> bool {
        lease.is_some() && self.nodes.get(node).is_some_and(|health| health.renewed != lease)
    }

    /// Returns the knowledge about one node.
    pub fn of(&mut self, node: &str) -> Option<&mut Health> {
        self.nodes.get_mut(node)
    }

    /// Forgets a node that is gone; its uid, if it was known.
    pub fn forget(&mut self, node: &str) -> Option<String> {
        self.nodes.remove(node)?.uid
    }

    /// Restarts the time of all nodes: if no node was heard of, the nodes are not at fault.
    pub fn forgive(&mut self, now: Timestamp) {
        for health in self.nodes.values_mut() {
            health.heard = now;
        }
    }
}

impl Health {
    fn first(node: &Node, now: Timestamp) -> Self {
        let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let reported = node::condition(node, "Ready").is_some();
        let heard = created.filter(|_| !reported).unwrap_or(now);
        Health { heard, uid: node.metadata.uid.clone(), ..Health::default() }
    }

    fn hear_lease(&mut self, renewed: Option<Timestamp>, now: Timestamp) {
        if renewed > self.renewed {
            self.renewed = renewed;
            self.heard = now;
        }
    }

    fn silent_at(&self, grace: SignedDuration) -> Timestamp {
        self.heard.checked_add(grace).unwrap_or(Timestamp::MAX)
    }
}
