//! Which pods go first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::object::pod::{is_active, is_ready, node_name, phase, ready_since};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Positions of `pods`, the first to delete first.
///
/// kube-controller-manager's criteria in its order. Where it compares two times of the same magnitude by uid at once,
/// the remaining criteria come first here: that keeps the order total.
pub fn deletion_order(pods: &[&Pod], related: &[&Pod], now: Timestamp) -> Vec<usize> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *on_node.entry(node_name(pod)).or_default() += 1;
    }
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|index| {
        let pod = pods[*index];
        let (restarts, sidecar_restarts) = restarts(pod);
        (
            !node_name(pod).is_empty(),
            phase_order(phase(pod)),
            is_ready(pod),
            deletion_cost(pod),
            Reverse(on_node.get(node_name(pod)).copied().unwrap_or(0)),
            age_bucket(ready_since(pod), now),
            Reverse(restarts),
            Reverse(sidecar_restarts),
            age_bucket(pod.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
            pod.metadata.uid.clone(),
        )
    });
    order
}

/// Orders pods without the criteria of ReplicaSets, and with exact times: the latest first.
pub fn stage_order(pods: &[&Pod]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_by_cached_key(|index| {
        let pod = pods[*index];
        let (restarts, sidecar_restarts) = restarts(pod);
        (
            !node_name(pod).is_empty(),
            phase_order(phase(pod)),
            is_ready(pod),
            ready_since(pod).map(Reverse),
            Reverse(restarts),
            Reverse(sidecar_restarts),
            pod.metadata.creation_timestamp.as_ref().map(|time| Reverse(time.0)),
        )
    });
    order
}

fn phase_order(phase: &str) -> u8 {
    match phase {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    // A leading plus or zeros are not a cost, as validation has it.
    let canonical = |text: &&String| {
        !text.starts_with('+') && (*text == "0" || !text.trim_start_matches('-').starts_with('0'))
    };
    text.filter(canonical).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the magnitude of an age, so that other criteria order pods of about the same age. Unknown ages come first.
fn age_bucket(since: Option<Timestamp>, now: Timestamp) -> Option<i32> {
    let nanos = now.duration_since(since?).as_nanos();
    Some(u128::try_from(nanos).ok().and_then(u128::checked_ilog2).map_or(-1, |log| log as i32))
}

fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let regular = status.container_statuses.iter().flatten().map(|container| container.restart_count).max();
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars: Vec<&str> = init
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let sidecar = status.init_container_statuses.iter().flatten();
    let sidecar =
        sidecar.filter(|status| sidecars.contains(&status.name.as_str())).map(|status| status.restart_count);
    (regular.unwrap_or(0), sidecar.max().unwrap_or(0))
}
