//! The taints that follow from a node's conditions.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};

use crate::object::node;
use crate::object::time::whole_seconds;
use crate::placement::taint;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Which condition in which state keeps pods away by which taint.
const TAINTED: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The treatment of the pods of a node that is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drive {
    /// The pods are evicted.
    Off,
    /// The pods are not evicted yet, unless the eviction has begun already.
    NotYet,
    /// The pods are left alone: no node is ready, so the control plane itself may be cut off.
    Nobody,
}

/// Whether the node's pods are not driven off though they would be.
pub fn is_due(node: &Node) -> bool {
    let Some(key) = driving(node) else { return false };
    !present(node).iter().any(|taint| taint.effect == "NoExecute" && taint.key == key)
}

/// Returns the taints that the node should have, or `None` if it has them.
pub fn plan(node: &Node, drive: Drive, now: Timestamp) -> Option<Vec<Taint>> {
    let present = present(node);
    let mut wanted: Vec<Taint> = TAINTED
        .iter()
        .filter(|(type_, status, _)| node::condition(node, type_).is_some_and(|said| said.status == *status))
        .map(|(_, _, key)| taint(key, "NoSchedule"))
        .collect();
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        wanted.push(taint::unschedulable());
    }
    // From silent to not ready and back the taint is exchanged at once: the pods' time goes on.
    let driven = present.iter().any(|taint| taint.effect == "NoExecute" && is_ours(taint));
    if let Some(key) = driving(node)
        && (drive == Drive::Off || drive == Drive::NotYet && driven)
    {
        wanted.push(taint(key, "NoExecute"));
    }
    let same = |a: &Taint, b: &Taint| a.key == b.key && a.effect == b.effect;
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !is_ours(taint) || wanted.iter().any(|wanted| same(wanted, taint)))
        .cloned()
        .collect();
    let missing = wanted.into_iter().filter(|wanted| !present.iter().any(|taint| same(wanted, taint)));
    taints.extend(missing.map(|taint| Taint { time_added: Some(whole_seconds(now)), ..taint }));
    (taints != present).then_some(taints)
}

fn present(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The key of the taint that drives the pods of such a node off.
fn driving(node: &Node) -> Option<&'static str> {
    match node::condition(node, "Ready")?.status.as_str() {
        "False" => Some(NOT_READY),
        "Unknown" => Some(UNREACHABLE),
        _ => None,
    }
}

fn is_ours(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        "NoSchedule" => {
            taint.key == taint::unschedulable().key || TAINTED.iter().any(|(_, _, key)| *key == taint.key)
        }
        "NoExecute" => taint.key == NOT_READY || taint.key == UNREACHABLE,
        _ => false,
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.into(), effect: effect.into(), ..Taint::default() }
}
