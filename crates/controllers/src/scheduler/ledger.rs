//! The nodes, their pods and the remaining room, updated with every change, so that placing a pod reads nodes only.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint::Key;

use super::filter::{self, Unschedulable};
use super::node_info::{NodeInfo, Placed, PodInfo};
use super::score;
use crate::object::pod::is_terminal;

/// All nodes and placed pods.
#[derive(Debug, Default)]
pub struct Ledger {
    nodes: BTreeMap<String, NodeInfo>,
    /// The placed pods, by namespace and name.
    pods: BTreeMap<(String, String), Placed>,
}

impl Ledger {
    /// A node appeared or changed. Whether that could matter to a pod: heartbeats do not.
    pub fn node(&mut self, node: &Node) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let info = self.nodes.entry(name).or_default();
        let before = info.clone();
        info.update(node);
        before.facts() != info.facts()
    }

    /// Whether the pod is accounted to a node.
    pub fn holds(&self, key: &Key) -> bool {
        self.pods.contains_key(&(key.namespace().unwrap_or_default().to_owned(), key.name().to_owned()))
    }

    /// A node went away; its pods are still accounted for, should it come back.
    pub fn node_gone(&mut self, name: &str) {
        if let Some(info) = self.nodes.get_mut(name) {
            info.known = false;
            if info.pods == 0 {
                self.nodes.remove(name);
            }
        }
    }

    /// A pod appeared or changed: bound pods that have not ended count, ended ones no longer do.
    pub fn pod(&mut self, pod: &Pod) {
        let key = key_of(pod);
        if is_terminal(pod) {
            self.pod_gone(&key.0, &key.1);
            return;
        }
        // An unbound pod may be one that was placed a moment ago and whose binding is still on its way.
        let Some(spec) = &pod.spec else { return };
        if let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty())
            && self.pods.get(&key).is_none_or(|placed| placed.node != node)
        {
            self.place(key, node, &PodInfo::of(spec));
        }
    }

    /// A pod went away, or its binding failed. Whether that freed something.
    pub fn pod_gone(&mut self, namespace: &str, name: &str) -> bool {
        let Some(placed) = self.pods.remove(&(namespace.to_owned(), name.to_owned())) else { return false };
        if let Some(info) = self.nodes.get_mut(&placed.node) {
            info.give_back(&placed);
            if !info.known && info.pods == 0 {
                self.nodes.remove(&placed.node);
            }
        }
        true
    }

    /// Accounts a pod to a node.
    pub fn place(&mut self, key: (String, String), node: &str, pod_info: &PodInfo<'_>) {
        self.pod_gone(&key.0, &key.1);
        let placed = Placed {
            node: node.to_owned(),
            asked: pod_info.asked.clone(),
            weight: pod_info.weight,
            ports: pod_info.ports.clone(),
        };
        self.nodes.entry(node.to_owned()).or_default().take(&placed);
        self.pods.insert(key, placed);
    }

    /// The best node for the pod, or why there is none.
    pub fn choose(&self, pod_info: &PodInfo<'_>) -> Result<&NodeInfo, Unschedulable> {
        let fitting = self.known().filter(|info| filter::accepts(pod_info, info));
        let best = fitting.min_by_key(|info| score::score(pod_info, info));
        best.ok_or_else(|| filter::explain(pod_info, self.known()))
    }

    /// Returns a refusal of all nodes for the same reason.
    pub fn refuse(&self, why: &str) -> Unschedulable {
        filter::refuse(why, self.known().count())
    }

    fn known(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.values().filter(|info| info.known)
    }
}

fn key_of(pod: &Pod) -> (String, String) {
    let meta = &pod.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
