//! Creates missing pods, and deletes surplus pods, ended pods, and pods that should not run.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::backoff::Backoff;
use super::observed::Observed;
use super::placement::Verdict;
use crate::object::pod::{is_ready, node_name, phase};

/// The most pods that one look creates, and the most that it deletes; the rest follows at the next.
pub const BURST: usize = 250;

/// Pods to create and to delete.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// The nodes that get a pod.
    pub create: Vec<&'a str>,
    pub delete: Vec<&'a Pod>,
    pub events: Vec<Event>,
    /// When a failed pod may go.
    pub retry: Option<Duration>,
}

impl Plan<'_> {
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// Something to tell about the DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// Decides. Failed pods that are to be deleted now start the wait for the next ones of their node.
pub fn plan<'a>(observed: &Observed<'a>, backoff: &mut Backoff) -> Plan<'a> {
    let mut plan = Plan::default();
    for (node, verdict) in &observed.nodes {
        on_node(observed, node, *verdict, backoff, &mut plan);
    }
    // No pod is bound to a missing node, and no other controller deletes pods that were never bound.
    let gone = observed.pods.iter().filter(|(node, _)| !observed.nodes.contains_key(*node));
    let unbound = gone.flat_map(|(_, pods)| pods).filter(|pod| node_name(pod).is_empty() && !is_going(pod));
    plan.delete.extend(unbound);
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn on_node<'a>(
    observed: &Observed<'a>,
    node: &'a str,
    verdict: Verdict,
    backoff: &mut Backoff,
    plan: &mut Plan<'a>,
) {
    let pods = observed.on(node);
    let staying = pods.iter().copied().filter(|pod| !is_going(pod));
    if pods.is_empty() {
        plan.create.extend(verdict.run.then_some(node));
    } else if verdict.keep {
        let running: Vec<&Pod> =
            staying.filter(|pod| !has_ended(observed, node, pod, backoff, plan)).collect();
        if running.is_empty() {
            // Without surge the new pod waits until the old one is gone.
            plan.create.extend((verdict.run && observed.allows_surge()).then_some(node));
        } else if observed.allows_surge() {
            plan.delete.extend(too_many_while_surging(observed, &running));
        } else {
            plan.delete.extend(&running[1..]);
        }
    } else {
        plan.delete.extend(staying);
    }
}

/// Whether the pod has ended; if so it is deleted, a failed one as soon as its node's wait is over.
fn has_ended<'a>(
    observed: &Observed<'a>,
    node: &str,
    pod: &'a Pod,
    backoff: &mut Backoff,
    plan: &mut Plan<'a>,
) -> bool {
    let meta = &observed.set.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref());
    let name = name.unwrap_or_default();
    match phase(pod) {
        "Failed" => {
            let seen = observed.set.status.as_ref().and_then(|status| status.observed_generation);
            let place = (meta.uid.clone().unwrap_or_default(), seen.unwrap_or(0), node.to_owned());
            if let Some(left) = backoff.try_now(place, observed.now) {
                plan.retry = Some(plan.retry.map_or(left, |retry| retry.min(left)));
                return true;
            }
            let message =
                format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            plan.events.push(Event { warning: true, reason: "FailedDaemonPod", message });
        }
        "Succeeded" => {
            let message = format!(
                "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
            );
            plan.events.push(Event { warning: false, reason: "SucceededDaemonPod", message });
        }
        _ => return false,
    }
    plan.delete.push(pod);
    true
}

/// The oldest new pod stays; the oldest old one as long as it serves and the new one does not yet.
fn too_many_while_surging<'a>(observed: &Observed<'a>, running: &[&'a Pod]) -> Vec<&'a Pod> {
    let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| observed.is_updated(pod));
    let replaced = match (new.first(), old.first()) {
        (Some(new), Some(old)) => !is_ready(old) || observed.is_available(new),
        _ => false,
    };
    let kept = usize::from(!replaced);
    new.into_iter().skip(1).chain(old.into_iter().skip(kept)).collect()
}
