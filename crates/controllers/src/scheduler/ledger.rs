//! The nodes, their pods and the remaining room, updated with every change, so that placing a pod reads nodes only.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use setpoint::Key;

use super::filter::{self, Unschedulable};
use super::resources::{self, Resources};
use super::score;
use super::volumes::PodVolumes;
use crate::pod::is_terminal;
use crate::quantity;
use crate::selector::Labels;

/// A port of the host that a pod takes: address, protocol, number.
pub type HostPort = (String, String, i32);

/// A pod's requirements on a node.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    pub spec: &'a PodSpec,
    pub asked: Resources,
    /// CPU and memory as compared between nodes.
    pub weight: (i64, i64),
    pub ports: BTreeSet<HostPort>,
    /// The requirements of its claims, if it has any.
    pub volumes: Option<&'a PodVolumes>,
}

impl<'a> Wish<'a> {
    pub fn of(spec: &'a PodSpec) -> Self {
        let asked = resources::of_pod(spec);
        let weight = resources::weight_of_pod(spec, &asked);
        Wish { spec, asked, weight, ports: host_ports(spec), volumes: None }
    }
}

fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let taken = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        let address = port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".into());
        Some((address, port.protocol.clone().unwrap_or_else(|| "TCP".into()), number))
    });
    taken.collect()
}

/// One node, and the room that its pods take.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    pub name: String,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Resources,
    pub allowed_pods: i64,
    pub requested: Resources,
    pub weight: (i64, i64),
    pub pods: i64,
    pub ports: BTreeSet<HostPort>,
    /// False while only pods are known, not the node.
    pub known: bool,
}

/// A node whose kubelet is silent runs nothing. Clusters say so by a taint, and here it counts even without one.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl NodeInfo {
    fn update(&mut self, node: &Node) {
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        self.name = node.metadata.name.clone().unwrap_or_default();
        self.labels = node.metadata.labels.clone().unwrap_or_default();
        self.taints = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
        self.unschedulable = spec.and_then(|spec| spec.unschedulable).unwrap_or(false);
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if !ready && !self.taints.iter().any(|taint| taint.key == NOT_READY) {
            self.taints.push(Taint {
                key: NOT_READY.into(),
                effect: "NoSchedule".into(),
                ..Default::default()
            });
        }
        let allocatable = status.and_then(|status| status.allocatable.as_ref());
        let pods = allocatable.and_then(|list| list.get("pods")).map(|pods| quantity::units(&pods.0));
        self.allowed_pods = pods.unwrap_or(0);
        self.allocatable = Resources::from_list(allocatable);
        self.known = true;
    }

    /// The node's own properties, without the use by its pods.
    fn facts(&self) -> (bool, &Labels, &[Taint], bool, &Resources, i64) {
        (self.known, &self.labels, &self.taints, self.unschedulable, &self.allocatable, self.allowed_pods)
    }

    fn take(&mut self, placed: &Placed) {
        self.requested.add(&placed.asked);
        self.weight = (self.weight.0 + placed.weight.0, self.weight.1 + placed.weight.1);
        self.pods += 1;
        self.ports.extend(placed.ports.iter().cloned());
    }

    fn give_back(&mut self, placed: &Placed) {
        self.requested.subtract(&placed.asked);
        self.weight = (self.weight.0 - placed.weight.0, self.weight.1 - placed.weight.1);
        self.pods -= 1;
        self.ports.retain(|port| !placed.ports.contains(port));
    }
}

#[derive(Debug, Clone)]
struct Placed {
    node: String,
    asked: Resources,
    weight: (i64, i64),
    ports: BTreeSet<HostPort>,
}

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
            self.place(key, node, &Wish::of(spec));
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
    pub fn place(&mut self, key: (String, String), node: &str, wish: &Wish<'_>) {
        self.pod_gone(&key.0, &key.1);
        let placed = Placed {
            node: node.to_owned(),
            asked: wish.asked.clone(),
            weight: wish.weight,
            ports: wish.ports.clone(),
        };
        self.nodes.entry(node.to_owned()).or_default().take(&placed);
        self.pods.insert(key, placed);
    }

    /// The best node for the pod, or why there is none.
    pub fn choose(&self, wish: &Wish<'_>) -> Result<&NodeInfo, Unschedulable> {
        let fitting = self.known().filter(|info| filter::accepts(wish, info));
        let best = fitting.min_by_key(|info| score::score(wish, info));
        best.ok_or_else(|| filter::explain(wish, self.known()))
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
