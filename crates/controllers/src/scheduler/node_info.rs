//! One node with the room that its pods take, and a pod's requirements on a node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint};

use super::resources::{self, Resources};
use super::volumes::PodVolumes;
use crate::object::quantity;
use crate::object::selector::Labels;

/// A port of the host that a pod takes: address, protocol, number.
pub type HostPort = (String, String, i32);

/// A pod's requirements on a node.
#[derive(Debug, Clone)]
pub struct PodInfo<'a> {
    pub spec: &'a PodSpec,
    pub asked: Resources,
    /// CPU and memory as compared between nodes.
    pub weight: (i64, i64),
    pub ports: BTreeSet<HostPort>,
    /// The requirements of its claims, if it has any.
    pub volumes: Option<&'a PodVolumes>,
}

impl<'a> PodInfo<'a> {
    pub fn of(spec: &'a PodSpec) -> Self {
        let asked = resources::of_pod(spec);
        let weight = resources::weight_of_pod(spec, &asked);
        PodInfo { spec, asked, weight, ports: host_ports(spec), volumes: None }
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

/// A pod on its node, and the room that it takes there.
#[derive(Debug, Clone)]
pub struct Placed {
    pub node: String,
    pub asked: Resources,
    pub weight: (i64, i64),
    pub ports: BTreeSet<HostPort>,
}

/// A node whose kubelet is silent runs nothing. Clusters say so by a taint, and here it counts even without one.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl NodeInfo {
    pub fn update(&mut self, node: &Node) {
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
    pub fn facts(&self) -> (bool, &Labels, &[Taint], bool, &Resources, i64) {
        (self.known, &self.labels, &self.taints, self.unschedulable, &self.allocatable, self.allowed_pods)
    }

    pub fn take(&mut self, placed: &Placed) {
        self.requested.add(&placed.asked);
        self.weight = (self.weight.0 + placed.weight.0, self.weight.1 + placed.weight.1);
        self.pods += 1;
        self.ports.extend(placed.ports.iter().cloned());
    }

    pub fn give_back(&mut self, placed: &Placed) {
        self.requested.subtract(&placed.asked);
        self.weight = (self.weight.0 - placed.weight.0, self.weight.1 - placed.weight.1);
        self.pods -= 1;
        self.ports.retain(|port| !placed.ports.contains(port));
    }
}
