//! On which nodes a DaemonSet's pods should be.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, PodSpec, Taint, Toleration};

use crate::object::field::daemon_set_spec;
use crate::object::selector::Labels;
use crate::placement::affinity;
use crate::placement::taint::is_tolerated;

const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// Daemons stay on failing nodes and run on nodes that take no other pods: a daemon may be what repairs the node.
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// Tolerated only by pods on the host network.
const NETWORK_UNAVAILABLE: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// Whether a node should get a pod, and whether it may keep one that it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    pub run: bool,
    pub keep: bool,
}

/// The template's rules about nodes, read once for all nodes.
pub struct Placement<'a> {
    pub spec: Option<&'a PodSpec>,
    tolerations: Vec<Toleration>,
}

impl<'a> Placement<'a> {
    pub fn of(set: &'a DaemonSet) -> Placement<'a> {
        let spec = daemon_set_spec(set).template.spec.as_ref();
        Placement { spec, tolerations: spec.map(tolerations).unwrap_or_default() }
    }

    pub fn verdict(&self, node: &Node) -> Verdict {
        let none = Labels::new();
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        if !self.spec.is_none_or(|spec| is_named(spec, name) && affinity::accepts(spec, name, labels)) {
            return Verdict::default();
        }
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let repelled = |effects: &[&str]| {
            let untolerated = |taint: &&Taint| !is_tolerated(taint, &self.tolerations);
            taints.iter().filter(untolerated).any(|taint| effects.contains(&taint.effect.as_str()))
        };
        Verdict { run: !repelled(&[NO_EXECUTE, NO_SCHEDULE]), keep: !repelled(&[NO_EXECUTE]) }
    }
}

fn is_named(spec: &PodSpec, node: &str) -> bool {
    spec.node_name.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == node)
}

/// The tolerations of the template, and those that every daemon has.
pub fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let network = spec.host_network.unwrap_or(false).then_some(&NETWORK_UNAVAILABLE);
    for (key, effect) in TOLERATED.iter().chain(network) {
        let wanted = Toleration {
            key: Some((*key).to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some((*effect).to_owned()),
            ..Default::default()
        };
        // One that the template limits in time holds for ever.
        let is_it = |given: &Toleration| {
            let value = given.value.clone().filter(|value| !value.is_empty());
            Toleration { toleration_seconds: None, value, ..given.clone() } == wanted
        };
        let mut found = false;
        for given in tolerations.iter_mut().filter(|given| is_it(given)) {
            *given = wanted.clone();
            found = true;
        }
        if !found {
            tolerations.push(wanted);
        }
    }
    tolerations
}
