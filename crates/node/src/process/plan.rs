//! What a process pod's node should do now: pure, from the pod and what is known of its containers' runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::simulated::{restart_pause, restarts};
use crate::status::{self, Addresses};

/// What is known of one container's runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// The present run.
    pub run: Run,
    /// Runs after the first.
    pub restarts: i32,
    /// How the run before ended.
    pub last: Option<ContainerStateTerminated>,
    /// Whether its readiness probe, or being started where it has none, says ready.
    pub ready: bool,
    /// Whether its startup probe has passed, or it has none.
    pub started: bool,
}

/// One run of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Run {
    /// Not yet begun.
    #[default]
    Waiting,
    /// It cannot be begun as the pod is.
    Refused {
        /// The reason word in its status.
        reason: String,
        /// What is wrong.
        message: String,
    },
    /// Its process runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Its process ended.
    Ended(ContainerStateTerminated),
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessPlan {
    /// The status to write, where it differs from what is stored.
    pub status: Option<PodStatus>,
    /// The containers to start, the next run of each.
    pub start: Vec<String>,
    /// When to look again though nothing happened meanwhile.
    pub again_at: Option<Timestamp>,
}

/// Decides for a pod that is to run.
pub fn plan(pod: &Pod, runs: &BTreeMap<String, Runs>, addresses: &Addresses, now: Timestamp) -> ProcessPlan {
    let Some(spec) = &pod.spec else { return ProcessPlan::default() };
    let stored = pod.status.clone().unwrap_or_default();
    if matches!(stored.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return ProcessPlan::default();
    }
    let mut plan = ProcessPlan::default();
    let initialised = initialise(spec, runs, now, &mut plan);
    if initialised == Some(true) {
        for container in &spec.containers {
            advance(spec, container, runs, now, &mut plan);
        }
    }
    let mut next = stored.clone();
    next.start_time = Some(stored.start_time.clone().unwrap_or(Time(whole_seconds(now))));
    let known = |container: &Container| runs.get(&container.name).cloned().unwrap_or_default();
    let statuses = |containers: &[Container], init: bool| -> Vec<ContainerStatus> {
        containers.iter().map(|container| container_status(container, &known(container), init)).collect()
    };
    if let Some(init) = spec.init_containers.as_ref().filter(|init| !init.is_empty()) {
        next.init_container_statuses = Some(statuses(init, true));
    }
    next.container_statuses = Some(statuses(&spec.containers, false));
    status::addresses(&mut next, addresses);
    status::phase(&mut next, spec);
    if initialised == Some(false) {
        next.phase = Some("Failed".into());
    }
    status::conditions(&mut next, pod.metadata.generation, whole_seconds(now));
    plan.status = (next != stored).then_some(next);
    plan
}

/// Times are stored in whole seconds; finer ones would differ from themselves when read back.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Init containers one after the other: true when all have succeeded, false when one failed for good.
fn initialise(
    spec: &PodSpec,
    runs: &BTreeMap<String, Runs>,
    now: Timestamp,
    plan: &mut ProcessPlan,
) -> Option<bool> {
    for container in spec.init_containers.iter().flatten() {
        let known = runs.get(&container.name).cloned().unwrap_or_default();
        match &known.run {
            Run::Ended(end) if end.exit_code == 0 => {}
            Run::Ended(_) if spec.restart_policy.as_deref() == Some("Never") => return Some(false),
            // A sidecar only has to have started.
            Run::Running { .. } if container.restart_policy.as_deref() == Some("Always") => {}
            _ => {
                advance(spec, container, runs, now, plan);
                return None;
            }
        }
    }
    Some(true)
}

/// Starts a container that should run and does not.
fn advance(
    spec: &PodSpec,
    container: &Container,
    runs: &BTreeMap<String, Runs>,
    now: Timestamp,
    plan: &mut ProcessPlan,
) {
    let known = runs.get(&container.name).cloned().unwrap_or_default();
    let start_at = match &known.run {
        Run::Waiting | Run::Refused { .. } => now,
        Run::Running { .. } => return,
        Run::Ended(end) => {
            let init = spec.init_containers.iter().flatten().any(|init| init.name == container.name);
            if !(restarts(spec, end.exit_code) || init) {
                return;
            }
            let finished = end.finished_at.as_ref().map_or(now, |time| time.0);
            finished + restart_pause(known.restarts)
        }
    };
    if start_at <= now {
        plan.start.push(container.name.clone());
    } else {
        plan.again_at = Some(plan.again_at.map_or(start_at, |at| at.min(start_at)));
    }
}

fn container_status(container: &Container, runs: &Runs, init: bool) -> ContainerStatus {
    let image = container.image.clone().unwrap_or_default();
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ContainerState::default()
    };
    let state = match &runs.run {
        Run::Waiting => waiting("ContainerCreating", None),
        Run::Refused { reason, message } => waiting(reason, Some(message.clone())),
        Run::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(whole_seconds(*since))) }),
            ..ContainerState::default()
        },
        Run::Ended(end) => ContainerState { terminated: Some(end.clone()), ..ContainerState::default() },
    };
    let has_run = !matches!(runs.run, Run::Waiting | Run::Refused { .. }) || runs.last.is_some();
    let running = matches!(runs.run, Run::Running { .. });
    let succeeded = matches!(&runs.run, Run::Ended(end) if end.exit_code == 0);
    ContainerStatus {
        name: container.name.clone(),
        image_id: if has_run { format!("process://{image}") } else { String::new() },
        image,
        container_id: has_run.then(|| format!("process://{}-{}", container.name, runs.restarts)),
        ready: if init { succeeded } else { running && runs.ready },
        started: Some(running && runs.started),
        restart_count: runs.restarts,
        state: Some(state),
        last_state: runs
            .last
            .clone()
            .map(|end| ContainerState { terminated: Some(end), ..ContainerState::default() }),
        ..ContainerStatus::default()
    }
}
