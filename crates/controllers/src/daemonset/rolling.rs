//! Replacing the pods of former templates, within what may be unavailable or too many.

use k8s_openapi::api::core::v1::Pod;

use super::manage::{BURST, Plan};
use super::observed::Observed;

/// Decides, where there is nothing else to do.
pub fn plan<'a>(observed: &Observed<'a>) -> Plan<'a> {
    if !observed.rolls() {
        return Plan::default();
    }
    let desired = observed.desired();
    let mut plan = match observed.surge(desired) {
        0 => {
            // Validation refuses a rollout where both are zero. One pod at a time is the default.
            let unavailable = observed.unavailable(desired).max(usize::from(desired > 0));
            Plan { delete: replace(observed, unavailable), ..Plan::default() }
        }
        surge => surging(observed, surge, desired),
    };
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

/// A node's new and old pod, as long as there is at most one of each; the others are for [`super::manage`] to prune.
fn new_and_old<'a>(observed: &Observed<'a>, node: &str) -> Option<(Option<&'a Pod>, Option<&'a Pod>)> {
    let (mut new, mut old) = (None, None);
    for pod in observed.on(node).iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let slot = if observed.is_updated(pod) { &mut new } else { &mut old };
        if slot.replace(*pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// Nodes that should have a pod, and nodes that have one.
fn concerned<'a>(observed: &Observed<'a>) -> impl Iterator<Item = &'a str> {
    let wanted = observed.nodes.iter().filter(|(_, verdict)| verdict.run).map(|(node, _)| *node);
    let nodes: std::collections::BTreeSet<&str> = wanted.chain(observed.pods.keys().copied()).collect();
    nodes.into_iter()
}

/// Returns the old pods to delete: all unavailable ones, and as many available ones as may be missing.
fn replace<'a>(observed: &Observed<'a>, max_unavailable: usize) -> Vec<&'a Pod> {
    let mut unavailable = 0;
    let (mut idle, mut serving) = (Vec::new(), Vec::new());
    for node in concerned(observed) {
        match new_and_old(observed, node) {
            Some((Some(new), None)) => unavailable += usize::from(!observed.is_available(new)),
            Some((None, Some(old))) if observed.is_available(old) => serving.push(old),
            Some((None, Some(old))) => {
                idle.push(old);
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    idle.extend(serving.into_iter().take(max_unavailable.saturating_sub(unavailable)));
    idle
}

/// Creates new pods beside old ones: on every node whose old pod is unavailable, and on as many others as surge
/// allows.
fn surging<'a>(observed: &Observed<'a>, max_surge: usize, desired: usize) -> Plan<'a> {
    let mut plan = Plan::default();
    let (mut surge, mut available) = (0, 0);
    let (mut leaving, mut candidates) = (Vec::new(), Vec::new());
    for node in concerned(observed) {
        let Some((new, old)) = new_and_old(observed, node) else {
            surge += 1;
            continue;
        };
        let serves = |pod: Option<&Pod>| pod.is_some_and(|pod| observed.is_available(pod));
        available += usize::from(serves(old.or(new)));
        let Some(old) = old else { continue };
        let wanted = observed.nodes.get(node).is_some_and(|verdict| verdict.run);
        match (new, serves(Some(old)), wanted) {
            (Some(_), ..) if serves(new) => plan.delete.push(old),
            (Some(_), ..) => surge += 1,
            (None, false, true) => plan.create.push(node),
            (None, false, false) => plan.delete.push(old),
            (None, true, true) => candidates.push(node),
            (None, true, false) => leaving.push(old),
        }
    }
    // If the template moved to other nodes, the old pods go when the new ones are available.
    plan.delete.extend(leaving.into_iter().take(available.saturating_sub(desired)));
    plan.create.extend(candidates.into_iter().take(max_surge.saturating_sub(surge)));
    plan
}
