//! Which nodes can take a pod, and why the others cannot, in kube-scheduler's words.

use std::collections::BTreeMap;

use super::node_info::{HostPort, NodeInfo, PodInfo};
use crate::placement::affinity;
use crate::placement::taint::{self, is_tolerated};

/// No node can take the pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unschedulable {
    pub message: String,
}

/// Whether the node can take the pod.
pub fn accepts(pod_info: &PodInfo<'_>, info: &NodeInfo) -> bool {
    refusal(pod_info, info).is_none()
        && insufficient(pod_info, info).next().is_none()
        && out_of_reach(pod_info, info).is_empty()
}

/// The sentence for the pod's condition and event: every reason with the number of nodes that gave it.
pub fn explain<'a>(pod_info: &PodInfo<'_>, nodes: impl Iterator<Item = &'a NodeInfo>) -> Unschedulable {
    let mut all = 0;
    let mut counts = BTreeMap::<String, usize>::new();
    for info in nodes {
        all += 1;
        // The first filter that refuses names the reason; only resources and volumes may name several.
        let mut reasons: Vec<String> = refusal(pod_info, info).map(str::to_owned).into_iter().collect();
        if reasons.is_empty() {
            reasons.extend(insufficient(pod_info, info));
        }
        if reasons.is_empty() {
            reasons.extend(out_of_reach(pod_info, info).into_iter().map(str::to_owned));
        }
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let mut counted: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counted.sort_unstable();
    refuse(&counted.join(", "), all)
}

/// The sentence for a pod that no node could take, whatever node it be.
pub fn refuse(why: &str, nodes: usize) -> Unschedulable {
    match nodes {
        0 => Unschedulable { message: "no nodes available to schedule pods".into() },
        all => Unschedulable { message: format!("0/{all} nodes are available: {why}.") },
    }
}

fn refusal(pod_info: &PodInfo<'_>, info: &NodeInfo) -> Option<&'static str> {
    let tolerations = pod_info.spec.tolerations.as_deref().unwrap_or_default();
    if info.unschedulable && !is_tolerated(&taint::unschedulable(), tolerations) {
        return Some("node(s) were unschedulable");
    }
    let repels = |effect: &str| matches!(effect, "NoSchedule" | "NoExecute");
    if info.taints.iter().any(|taint| repels(&taint.effect) && !is_tolerated(taint, tolerations)) {
        return Some("node(s) had untolerated taint(s)");
    }
    if !affinity::accepts(pod_info.spec, &info.name, &info.labels) {
        return Some("node(s) didn't match Pod's node affinity/selector");
    }
    if pod_info.ports.iter().any(|wanted| info.ports.iter().any(|taken| collide(wanted, taken))) {
        return Some("node(s) didn't have free ports for the requested pod ports");
    }
    None
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let any = "0.0.0.0";
    a.1 == b.1 && a.2 == b.2 && (a.0 == b.0 || a.0 == any || b.0 == any)
}

fn out_of_reach(pod_info: &PodInfo<'_>, info: &NodeInfo) -> Vec<&'static str> {
    pod_info.volumes.map(|volumes| volumes.refusals(&info.name, &info.labels)).unwrap_or_default()
}

fn insufficient<'a>(pod_info: &'a PodInfo<'_>, info: &'a NodeInfo) -> impl Iterator<Item = String> + 'a {
    let (asked, used, have) = (&pod_info.asked, &info.requested, &info.allocatable);
    let of = |amounts: &BTreeMap<String, i64>, name: &str| amounts.get(name).copied().unwrap_or(0);
    let full = (info.pods + 1 > info.allowed_pods).then(|| "Too many pods".to_owned());
    let plain = [
        ("cpu", asked.cpu_millis, used.cpu_millis, have.cpu_millis),
        ("memory", asked.memory, used.memory, have.memory),
        ("ephemeral-storage", asked.ephemeral_storage, used.ephemeral_storage, have.ephemeral_storage),
    ];
    let other = asked
        .other
        .iter()
        .map(move |(name, amount)| (name.as_str(), *amount, of(&used.other, name), of(&have.other, name)));
    let short =
        plain.into_iter().chain(other).filter(|(_, asked, used, have)| *asked > 0 && *asked > have - used);
    full.into_iter().chain(short.map(|(name, ..)| format!("Insufficient {name}")))
}
