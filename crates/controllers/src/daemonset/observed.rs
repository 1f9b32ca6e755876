//! The observed nodes and pods of a DaemonSet, ordered by node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};

use super::placement::{Placement, Verdict};
use super::template;
use crate::object::field::daemon_set_spec;
use crate::object::percent::{Round, scaled};
use crate::object::pod::{is_available, is_terminal, node_name};

/// A DaemonSet, all nodes and its pods.
pub struct Observed<'a> {
    pub set: &'a DaemonSet,
    /// The revision of the present template.
    pub hash: &'a str,
    /// The verdict for each node.
    pub nodes: BTreeMap<&'a str, Verdict>,
    /// The pods of each node, bound before unbound, and older before newer. Some nodes may be gone.
    pub pods: BTreeMap<&'a str, Vec<&'a Pod>>,
    pub now: Timestamp,
}

impl<'a> Observed<'a> {
    pub fn new(
        set: &'a DaemonSet,
        hash: &'a str,
        nodes: impl Iterator<Item = &'a Node>,
        all: impl Iterator<Item = &'a Pod>,
        now: Timestamp,
    ) -> Observed<'a> {
        let placement = Placement::of(set);
        let name = |node: &'a Node| node.metadata.name.as_deref().unwrap_or_default();
        let nodes = nodes.map(|node| (name(node), placement.verdict(node))).collect();
        let mut pods = BTreeMap::<&str, Vec<&Pod>>::new();
        for pod in all {
            // The pod has ended and is being deleted: the controller has no more to do for it, even if a finalizer
            // holds it.
            let over = is_terminal(pod) && pod.metadata.deletion_timestamp.is_some();
            if let Some(node) = template::node_of(pod).filter(|_| !over) {
                pods.entry(node).or_default().push(pod);
            }
        }
        for pods in pods.values_mut() {
            pods.sort_by_cached_key(|pod| {
                let meta = &pod.metadata;
                let created = meta.creation_timestamp.as_ref().map(|time| time.0);
                (node_name(pod).is_empty(), created, meta.name.clone())
            });
        }
        Observed { set, hash, nodes, pods, now }
    }

    /// The pods of a node.
    pub fn on(&self, node: &str) -> &[&'a Pod] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the pod is of the present template.
    pub fn is_updated(&self, pod: &Pod) -> bool {
        template::is_updated(self.set, self.hash, pod)
    }

    pub fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, self.min_ready_seconds(), self.now)
    }

    pub fn min_ready_seconds(&self) -> i32 {
        daemon_set_spec(self.set).min_ready_seconds.unwrap_or(0)
    }

    /// Returns the number of nodes that should have a pod.
    pub fn desired(&self) -> usize {
        self.nodes.values().filter(|verdict| verdict.run).count()
    }

    /// Whether a node may have an old and a new pod at a time.
    pub fn allows_surge(&self) -> bool {
        self.surge(1) > 0
    }

    /// Returns the number of nodes, of `total`, that may have a second pod.
    pub fn surge(&self, total: usize) -> usize {
        part(self.rolling().and_then(|rolling| rolling.max_surge.as_ref()), total)
    }

    /// Returns the number of nodes, of `total`, that may be without an available pod.
    pub fn unavailable(&self, total: usize) -> usize {
        part(self.rolling().and_then(|rolling| rolling.max_unavailable.as_ref()), total)
    }

    /// Whether pods of former templates are replaced without being asked.
    pub fn rolls(&self) -> bool {
        let strategy = daemon_set_spec(self.set).update_strategy.as_ref();
        strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate")
    }

    fn rolling(&self) -> Option<&RollingUpdateDaemonSet> {
        let strategy = daemon_set_spec(self.set).update_strategy.as_ref().filter(|_| self.rolls());
        strategy?.rolling_update.as_ref()
    }
}

fn part(value: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>, total: usize) -> usize {
    let total = i32::try_from(total).unwrap_or(i32::MAX);
    usize::try_from(scaled(value, total, Round::Up)).unwrap_or(0)
}
