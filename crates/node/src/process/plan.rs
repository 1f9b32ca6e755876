//! Decides the next actions for a process pod: pure, from the pod and its containers' runs.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::simulated::{back_off_message, restart_pause, restarts};
use crate::status::{self, Addresses};

/// The runs of one container, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// The present run.
    pub run: Run,
    /// Runs after the first.
    pub restarts: i32,
    /// The end of the previous run.
    pub last: Option<ContainerStateTerminated>,
    /// Whether the container is ready: its readiness probe says so, or it has none and was started.
    pub ready: bool,
    /// Whether its startup probe has passed, or it has none.
    pub started: bool,
    /// Restarts since the container last ran for long, while this node has watched. The back-off grows with them.
    pub failures: i32,
    /// Whether its image is not in the table, so that no program runs.
    pub simulated: bool,
    /// The image of the present run, or of the last.
    pub image: String,
    /// Whether the container should run another image. This run then ends, and the next begins whatever the restart
    /// policy.
    pub redefined: bool,
}

/// One run of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Run {
    /// The run has not begun.
    #[default]
    Waiting,
    /// The run cannot begin with the present pod.
    Refused {
        /// The reason in the container's status.
        reason: String,
        /// A description of the problem.
        message: String,
        /// The time of the refusal.
        at: Timestamp,
    },
    /// The process runs.
    Running {
        /// The start of the process.
        since: Timestamp,
    },
    /// The process ended.
    Ended(ContainerStateTerminated),
}

/// The next actions for a process pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessPlan {
    /// The status to write, if it differs from the stored one.
    pub status: Option<PodStatus>,
    /// The containers whose next run should start.
    pub start: Vec<String>,
    /// The time of the next look, if nothing happens before.
    pub again_at: Option<Timestamp>,
}

/// Decides for a pod that should run.
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
        let one = |container: &Container| container_status(pod, container, &known(container), init);
        containers.iter().map(one).collect()
    };
    if let Some(init) = spec.init_containers.as_ref().filter(|init| !init.is_empty()) {
        next.init_container_statuses = Some(statuses(init, true));
    }
    next.container_statuses = Some(statuses(&spec.containers, false));
    status::reached_addresses(&mut next, addresses);
    status::phase(&mut next, spec);
    if initialised == Some(false) {
        next.phase = Some("Failed".into());
    }
    status::conditions(&mut next, pod, whole_seconds(now));
    plan.status = (next != stored).then_some(next);
    plan
}

/// Truncates to whole seconds, as times are stored. A finer time would differ from itself when it is read back.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// Runs init containers one after the other. Returns true when all have succeeded, and false when one has failed for
/// good.
fn initialise(
    spec: &PodSpec,
    runs: &BTreeMap<String, Runs>,
    now: Timestamp,
    plan: &mut ProcessPlan,
) -> Option<bool> {
    for container in spec.init_containers.iter().flatten() {
        let known = runs.get(&container.name).cloned().unwrap_or_default();
        let sidecar = is_sidecar(container);
        match &known.run {
            Run::Ended(end) if end.exit_code == 0 && !sidecar => {}
            Run::Ended(_) if spec.restart_policy.as_deref() == Some("Never") && !sidecar => {
                return Some(false);
            }
            // A sidecar only has to have started. A restart of it delays no other container.
            Run::Running { .. } if sidecar && known.started => {}
            Run::Ended(_) if sidecar && known.restarts > 0 => advance(spec, container, runs, now, plan),
            _ => {
                advance(spec, container, runs, now, plan);
                return None;
            }
        }
    }
    Some(true)
}

/// Whether an init container is a sidecar: it stays beside the other containers.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether the restart policy starts a container again after this end.
fn starts_again(spec: &PodSpec, container: &Container, known: &Runs, end: &ContainerStateTerminated) -> bool {
    if known.redefined {
        return true;
    }
    let init = spec.init_containers.iter().flatten().any(|init| init.name == container.name);
    if init {
        return is_sidecar(container)
            || end.exit_code != 0 && spec.restart_policy.as_deref() != Some("Never");
    }
    restarts(spec, end.exit_code)
}

/// Pause before a refused action is tried again.
const REFUSED_PAUSE: SignedDuration = SignedDuration::from_secs(5);

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
        Run::Waiting => now,
        Run::Refused { at, .. } => *at + REFUSED_PAUSE,
        Run::Running { .. } => return,
        Run::Ended(end) => {
            if !starts_again(spec, container, &known, end) {
                return;
            }
            let finished = end.finished_at.as_ref().map_or(now, |time| time.0);
            finished + restart_pause(known.failures)
        }
    };
    if start_at <= now {
        plan.start.push(container.name.clone());
    } else {
        plan.again_at = Some(plan.again_at.map_or(start_at, |at| at.min(start_at)));
    }
}

fn container_status(pod: &Pod, container: &Container, runs: &Runs, init: bool) -> ContainerStatus {
    let (state, last) = states(pod, container, runs);
    let has_run = !matches!(runs.run, Run::Waiting | Run::Refused { .. }) || runs.last.is_some();
    let image = match runs.image.as_str() {
        "" => container.image.clone().unwrap_or_default(),
        image => image.to_owned(),
    };
    let running = matches!(runs.run, Run::Running { .. });
    let succeeded = matches!(&runs.run, Run::Ended(end) if end.exit_code == 0);
    let kind = if runs.simulated { "simulated" } else { "process" };
    ContainerStatus {
        name: container.name.clone(),
        image_id: if has_run { format!("{kind}://{image}") } else { String::new() },
        image,
        container_id: has_run.then(|| format!("{kind}://{}-{}", container.name, runs.restarts)),
        ready: if init && !is_sidecar(container) { succeeded } else { running && runs.ready },
        started: Some(running && runs.started),
        restart_count: runs.restarts,
        state: Some(state),
        // Also without content, as servers store it: a status that differs from its stored form would be written at
        // every reconcile.
        last_state: Some(ContainerState { terminated: last, ..ContainerState::default() }),
        ..ContainerStatus::default()
    }
}

/// Returns the present state, and the end of the previous run. For a container in back-off, the last end is the
/// previous run's.
fn states(
    pod: &Pod,
    container: &Container,
    runs: &Runs,
) -> (ContainerState, Option<ContainerStateTerminated>) {
    let waiting = |reason: &str, message: Option<String>| ContainerState {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.into()), message }),
        ..ContainerState::default()
    };
    let state = match &runs.run {
        Run::Waiting if has_pending_init(pod, container) => waiting("PodInitializing", None),
        Run::Waiting => waiting("ContainerCreating", None),
        Run::Refused { reason, message, .. } => waiting(reason, Some(message.clone())),
        Run::Running { since } => ContainerState {
            running: Some(ContainerStateRunning { started_at: Some(Time(whole_seconds(*since))) }),
            ..ContainerState::default()
        },
        Run::Ended(end) => {
            let pause = restart_pause(runs.failures);
            let again = pod.spec.as_ref().is_some_and(|spec| starts_again(spec, container, runs, end));
            if again && !pause.is_zero() {
                let message = back_off_message(pod, &container.name, pause.as_secs());
                return (waiting("CrashLoopBackOff", Some(message)), Some(end.clone()));
            }
            ContainerState { terminated: Some(end.clone()), ..ContainerState::default() }
        }
    };
    (state, runs.last.clone())
}

fn has_pending_init(pod: &Pod, container: &Container) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    !init.is_empty() && init.iter().all(|init| init.name != container.name)
}

#[cfg(test)]
mod tests;
