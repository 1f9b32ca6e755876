//! The parts of a pod's status that follow from its containers' states, however these run.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerStateTerminated, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The addresses of a pod and its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The node's address.
    pub host: String,
    /// The pod's, from the node's pod CIDR; the node's own for a pod on the host network.
    pub pod: String,
}

/// Writes all addresses.
pub fn addresses(status: &mut PodStatus, addresses: &Addresses) {
    status.host_ip = Some(addresses.host.clone());
    status.host_ips = Some(vec![HostIP { ip: addresses.host.clone() }]);
    status.pod_ip = Some(addresses.pod.clone());
    status.pod_ips = Some(vec![PodIP { ip: addresses.pod.clone() }]);
}

/// Writes the addresses that the pod has by now: its own only once its sandbox is up, unless that is the node's.
pub fn reached_addresses(status: &mut PodStatus, given: &Addresses) {
    let shown = status.pod_ip.is_some() || has_sandbox(status) || given.pod == given.host;
    addresses(status, given);
    if !shown {
        (status.pod_ip, status.pod_ips) = (None, None);
    }
}

/// Whether the pod's sandbox is up, which containers need: one of them got further than to wait for it.
fn has_sandbox(status: &PodStatus) -> bool {
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.into_iter().any(|container| {
        let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waiting.map(|waiting| waiting.reason.as_deref().unwrap_or_default());
        last_end(container).is_some() || !matches!(reason, Some("ContainerCreating" | "PodInitializing"))
    })
}

/// Returns the end of the previous run. Servers store a state without content if there was none.
pub fn last_end(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

/// The phase: a summary of the containers' states under the pod's restart policy.
pub fn phase(status: &mut PodStatus, spec: &PodSpec) {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let never = spec.restart_policy.as_deref() == Some("Never");
    let always = !never && spec.restart_policy.as_deref() != Some("OnFailure");
    let ended = |status: &ContainerStatus| status.state.as_ref().and_then(|state| state.terminated.clone());
    let waiting_first = |status: &ContainerStatus| {
        status.state.as_ref().is_none_or(|state| state.waiting.is_some()) && last_end(status).is_none()
    };
    let phase = if containers.len() < spec.containers.len() || containers.iter().any(waiting_first) {
        "Pending"
    } else if always || !containers.iter().all(|status| ended(status).is_some()) {
        "Running"
    } else if containers.iter().filter_map(ended).all(|end| end.exit_code == 0) {
        "Succeeded"
    } else if never {
        "Failed"
    } else {
        // A failed container is started again.
        "Running"
    };
    status.phase = Some(phase.into());
}

/// The reason of a pod that was active for longer than it may be.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The same in words, in the pod's status and its event.
pub const DEADLINE_EXCEEDED_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Returns the time until which a pod may be active, or `None` if it may be for ever or has not started.
pub fn active_until(pod: &Pod) -> Option<Timestamp> {
    let started = pod.status.as_ref()?.start_time.as_ref()?.0;
    let seconds = pod.spec.as_ref()?.active_deadline_seconds?;
    started.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Marks a pod as failed because it was active for too long.
pub fn expire(status: &mut PodStatus, pod: &Pod, now: Timestamp) {
    status.phase = Some("Failed".into());
    status.reason = Some(DEADLINE_EXCEEDED.into());
    status.message = Some(DEADLINE_EXCEEDED_MESSAGE.into());
    conditions(status, pod, now);
}

/// The five conditions that a kubelet keeps, in its order, and the generation that they are of. Times move only when
/// the value changes.
pub fn conditions(status: &mut PodStatus, pod: &Pod, now: Timestamp) {
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let unready: Vec<&str> = containers.iter().filter(|c| !c.ready).map(|c| c.name.as_str()).collect();
    let ready = !containers.is_empty() && unready.is_empty() && !finished;
    let (reason, message) = if ready {
        (None, None)
    } else if status.phase.as_deref() == Some("Succeeded") {
        (Some("PodCompleted".to_owned()), None)
    } else if finished {
        (Some("PodFailed".to_owned()), None)
    } else {
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        (Some("ContainersNotReady".to_owned()), Some(message))
    };
    let sandbox = !finished && has_sandbox(status);
    let incomplete = uninitialised(status, pod);
    let (uninitialised, initialising) = match incomplete.as_slice() {
        [] => (None, None),
        names => (
            Some("ContainersNotInitialized".to_owned()),
            Some(format!("containers with incomplete status: [{}]", names.join(" "))),
        ),
    };
    let mut wanted = vec![
        condition("PodReadyToStartContainers", sandbox, None, None),
        condition("Initialized", uninitialised.is_none(), uninitialised, initialising),
        condition("Ready", ready, reason.clone(), message.clone()),
        condition("ContainersReady", ready, reason, message),
        condition("PodScheduled", true, None, None),
    ];
    let stored = status.conditions.take().unwrap_or_default();
    status.observed_generation = pod.metadata.generation;
    for condition in &mut wanted {
        condition.observed_generation = pod.metadata.generation;
        let before = stored.iter().find(|c| c.type_ == condition.type_);
        condition.last_transition_time = match before {
            Some(before) if before.status == condition.status => before.last_transition_time.clone(),
            _ => Some(Time(now)),
        };
        if let Some(before) = before {
            condition.last_probe_time = before.last_probe_time.clone();
        }
    }
    // Conditions of others (readiness gates, DisruptionTarget) stay.
    wanted.extend(stored.into_iter().filter(|c| !KUBELET_CONDITIONS.contains(&c.type_.as_str())));
    status.conditions = Some(wanted);
}

/// The init containers that the others still wait for.
fn uninitialised(status: &PodStatus, pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let done = |container: &&Container| {
        let known = status.init_container_statuses.iter().flatten().find(|s| s.name == container.name);
        let Some(known) = known else { return false };
        let state = known.state.clone().unwrap_or_default();
        let succeeded = state.terminated.is_some_and(|end| end.exit_code == 0);
        succeeded || container.restart_policy.as_deref() == Some("Always") && known.started == Some(true)
    };
    containers.filter(|container| !done(container)).map(|container| container.name.clone()).collect()
}

const KUBELET_CONDITIONS: &[&str] =
    &["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

fn condition(kind: &str, holds: bool, reason: Option<String>, message: Option<String>) -> PodCondition {
    PodCondition {
        type_: kind.into(),
        status: if holds { "True" } else { "False" }.into(),
        reason,
        message,
        ..PodCondition::default()
    }
}
