//! Simulated containers: the status that a kubelet would have reported by now, as a function of the stored pod and
//! the time. No other state exists, so a restarted node continues where it was.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::annotation::Script;
use crate::status::{self, Addresses};

/// The first pause before a container is started again; it doubles with each failure.
pub const RESTART_BACKOFF: Duration = Duration::from_secs(10);
/// The longest pause.
pub const RESTART_BACKOFF_MOST: Duration = Duration::from_secs(300);

/// The time for which a container of a pod that runs to completion runs, unless an annotation says otherwise.
pub const USUAL_RUN: Duration = Duration::from_secs(1);

/// The node's next actions for one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to write, if it differs from the stored one.
    pub status: Option<PodStatus>,
    /// The containers that ended because the image that they should run is another.
    pub redefined: Vec<String>,
    /// The pod has failed because it was active for longer than it may be.
    pub expired: bool,
    /// All containers have stopped and the pod was to go: delete it for good.
    pub remove: bool,
    /// When to look again though nothing was written meanwhile.
    pub again_at: Option<Timestamp>,
}

/// Decides the next actions. `script` comes from the pod's annotations. `addresses` are those of this node.
pub fn plan(pod: &Pod, script: &Script, addresses: &Addresses, now: Timestamp) -> Plan {
    if pod.metadata.deletion_timestamp.is_some() {
        return terminate(pod, script, now);
    }
    let Some(spec) = &pod.spec else { return Plan::default() };
    let stored = pod.status.clone().unwrap_or_default();
    if matches!(stored.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Plan::default();
    }
    if let Some(end) = status::active_until(pod).filter(|end| *end <= now) {
        let mut next = stopped(pod, &stored, end);
        status::expire(&mut next, pod, end);
        return Plan { status: Some(next), expired: true, ..Plan::default() };
    }
    let script = &with_usual_end(script, pod, spec);
    let started = stored.start_time.as_ref().map_or(now, |time| time.0);
    let start_at = started + signed(script.start_delay);
    let containers = Containers { pod, spec, stored: &stored, script, start_at, now };
    let (statuses, container_again) = containers.advance();
    let redefined = spec.containers.iter().filter(|container| {
        let known = stored.container_statuses.iter().flatten().find(|known| known.name == container.name);
        known.is_some_and(|known| is_redefined(known, container) && is_running(known))
    });
    let redefined = redefined.map(|container| container.name.clone()).collect();
    let mut next = stored.clone();
    next.start_time = Some(Time(started));
    next.container_statuses = Some(statuses);
    if let Some(init) = &spec.init_containers {
        next.init_container_statuses =
            Some(init.iter().map(|c| finished_init(c, &stored, started)).collect());
    }
    status::reached_addresses(&mut next, addresses);
    status::phase(&mut next, spec);
    status::conditions(&mut next, pod, now);
    let until = spec.active_deadline_seconds.map(|seconds| started + SignedDuration::from_secs(seconds));
    let again_at = container_again.into_iter().chain(until).min();
    Plan { status: (next != stored).then_some(next), redefined, again_at, ..Plan::default() }
}

/// The script of a pod, which ends after a moment if the pod runs to completion: one of a Job, or one with a command
/// that is not to start again and again. Nobody waits for the end of other pods.
fn with_usual_end(script: &Script, pod: &Pod, spec: &PodSpec) -> Script {
    let owners = pod.metadata.owner_references.iter().flatten();
    let is_of_job = owners.into_iter().any(|owner| owner.controller == Some(true) && owner.kind == "Job");
    let has_words = |words: &Option<Vec<String>>| words.as_ref().is_some_and(|words| !words.is_empty());
    let has_command = spec.containers.iter().any(|one| has_words(&one.command) || has_words(&one.args));
    let once = matches!(spec.restart_policy.as_deref(), Some("Never" | "OnFailure"));
    let ends = once && (is_of_job || has_command) && script.run_for.is_none() && !script.runs_forever;
    Script { run_for: if ends { Some(USUAL_RUN) } else { script.run_for }, ..*script }
}

/// A pod that is to go: its containers stop after the script's delay, but no later than the grace period.
fn terminate(pod: &Pod, script: &Script, now: Timestamp) -> Plan {
    let grace =
        Duration::from_secs(pod.metadata.deletion_grace_period_seconds.unwrap_or(0).max(0).unsigned_abs());
    let Some(deadline) = &pod.metadata.deletion_timestamp else { return Plan::default() };
    // deletionTimestamp is the moment of the deadline, not of the request.
    let left = signed(grace.saturating_sub(script.stop_delay));
    let stop_at = deadline.0.checked_sub(left).unwrap_or(Timestamp::MIN);
    if now < stop_at {
        return Plan { again_at: Some(stop_at), ..Plan::default() };
    }
    // The owner of a finalizer must see that the pod has ended. Everybody else sees the deletion.
    let held = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    if let Some(stored) = pod.status.as_ref().filter(|_| held)
        && !matches!(stored.phase.as_deref(), Some("Succeeded" | "Failed"))
    {
        return Plan { status: Some(stopped(pod, stored, stop_at)), ..Plan::default() };
    }
    Plan { remove: true, ..Plan::default() }
}

/// The exit code of a program that was asked to end and knows no better: 128 and SIGTERM.
const TERMINATED: i32 = 143;

/// The status of a pod that was stopped.
fn stopped(pod: &Pod, stored: &PodStatus, at: Timestamp) -> PodStatus {
    let mut next = stored.clone();
    for status in next.container_statuses.iter_mut().flatten() {
        let running = status.state.as_ref().and_then(|state| state.running.as_ref());
        if let Some(running) = running {
            let since = running.started_at.as_ref().map_or(at, |time| time.0);
            exit(status, since, at, TERMINATED);
        }
    }
    next.phase = Some("Failed".into());
    status::conditions(&mut next, pod, at);
    next
}

struct Containers<'a> {
    pod: &'a Pod,
    spec: &'a PodSpec,
    stored: &'a PodStatus,
    script: &'a Script,
    start_at: Timestamp,
    now: Timestamp,
}

impl Containers<'_> {
    /// The status of every container at `now`, and when the first of them changes by itself.
    fn advance(&self) -> (Vec<ContainerStatus>, Option<Timestamp>) {
        let mut again: Option<Timestamp> = None;
        let mut statuses = Vec::with_capacity(self.spec.containers.len());
        for container in &self.spec.containers {
            let stored = self.stored.container_statuses.iter().flatten().find(|s| s.name == container.name);
            let (status, next) = self.advance_one(container, stored);
            again = match (again, next) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            statuses.push(status);
        }
        (statuses, again)
    }

    fn advance_one(
        &self,
        container: &Container,
        stored: Option<&ContainerStatus>,
    ) -> (ContainerStatus, Option<Timestamp>) {
        let mut status = stored.cloned().unwrap_or_else(|| created(container));
        if is_redefined(&status, container) {
            self.redefine(&mut status, container);
        }
        // Each turn moves the container one state on; a script moves it through few.
        for _ in 0..8 {
            let state = status.state.clone().unwrap_or_default();
            if let Some(running) = &state.running {
                let since = running.started_at.as_ref().map_or(self.now, |time| time.0);
                match self.script.run_for.map(|time| since + signed(time)) {
                    Some(end) if end <= self.now => exit(&mut status, since, end, self.script.exit_code),
                    end => return self.stay_running(status, since, end),
                }
            } else if let Some(terminated) = state.terminated.clone() {
                let Some(restart_at) = self.restart_at(&status, &terminated) else { return (status, None) };
                if restart_at > self.now {
                    back_off(&mut status, self.pod, &terminated);
                    return (status, Some(restart_at));
                }
                restart(&mut status, container, restart_at);
            } else if let Some(terminated) = backing_off(&status) {
                let Some(restart_at) = self.restart_at(&status, &terminated) else { return (status, None) };
                if restart_at > self.now {
                    return (status, Some(restart_at));
                }
                restart(&mut status, container, restart_at);
            } else {
                if self.start_at > self.now {
                    return (status, Some(self.start_at));
                }
                run(&mut status, container, self.start_at);
            }
        }
        (status, Some(self.now + SignedDuration::from_secs(1)))
    }

    /// A container whose image became another ends and starts again, whatever the restart policy; one that waits for its
    /// next start waits no longer.
    fn redefine(&self, status: &mut ContainerStatus, container: &Container) {
        let since = status.state.as_ref().and_then(|state| state.running.as_ref());
        if let Some(since) = since.map(|running| running.started_at.as_ref().map_or(self.now, |at| at.0)) {
            exit(status, since, self.now, 0);
            restart(status, container, self.now);
        } else if backing_off(status).is_some() {
            restart(status, container, self.now);
        }
    }

    fn stay_running(
        &self,
        mut status: ContainerStatus,
        since: Timestamp,
        end: Option<Timestamp>,
    ) -> (ContainerStatus, Option<Timestamp>) {
        let ready_at = since + signed(self.script.ready_delay);
        status.ready = ready_at <= self.now;
        status.started = Some(true);
        let again = if status.ready { end } else { Some(end.map_or(ready_at, |end| end.min(ready_at))) };
        (status, again)
    }

    /// When a container that ended starts again; none where the restart policy says that it does not.
    fn restart_at(&self, status: &ContainerStatus, ended: &ContainerStateTerminated) -> Option<Timestamp> {
        let finished = ended.finished_at.as_ref().map_or(self.now, |time| time.0);
        restarts(self.spec, ended.exit_code).then(|| finished + restart_pause(status.restart_count))
    }
}

/// Whether a container that ended with `code` is started again.
pub(crate) fn restarts(spec: &PodSpec, code: i32) -> bool {
    match spec.restart_policy.as_deref() {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

/// Returns the pause before the next start of a container with `restarts` restarts.
pub(crate) fn restart_pause(restarts: i32) -> SignedDuration {
    signed(backoff(restarts))
}

/// The pause before start number `restarts + 1`: none before the first restart, then doubling.
fn backoff(restarts: i32) -> Duration {
    if restarts == 0 {
        return Duration::ZERO;
    }
    let doubled = u32::try_from(restarts - 1).unwrap_or(0).min(16);
    RESTART_BACKOFF.saturating_mul(1 << doubled).min(RESTART_BACKOFF_MOST)
}

fn created(container: &Container) -> ContainerStatus {
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        image_id: String::new(),
        ready: false,
        started: Some(false),
        state: Some(waiting("ContainerCreating", None)),
        ..ContainerStatus::default()
    }
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.into()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn run(status: &mut ContainerStatus, container: &Container, at: Timestamp) {
    let image = container.image.clone().unwrap_or_default();
    status.image_id = format!("simulated://{image}");
    status.image = image;
    status.container_id = Some(format!("simulated://{}-{}", container.name, status.restart_count));
    status.state = Some(running(at));
    status.started = Some(true);
}

fn running(at: Timestamp) -> ContainerState {
    ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(at)) }),
        ..ContainerState::default()
    }
}

fn exit(status: &mut ContainerStatus, started: Timestamp, at: Timestamp, code: i32) {
    let terminated = ContainerStateTerminated {
        container_id: status.container_id.clone(),
        exit_code: code,
        finished_at: Some(Time(at)),
        started_at: Some(Time(started)),
        reason: Some(if code == 0 { "Completed" } else { "Error" }.into()),
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
    status.ready = false;
    status.started = Some(false);
}

/// Returns a kubelet's message for a container in back-off.
pub(crate) fn back_off_message(pod: &Pod, container: &str, seconds: i64) -> String {
    let pause = match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    };
    let meta = &pod.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (name, namespace, uid) = (text(&meta.name), text(&meta.namespace), text(&meta.uid));
    format!("back-off {pause} restarting failed container={container} pod={name}_{namespace}({uid})")
}

fn back_off(status: &mut ContainerStatus, pod: &Pod, ended: &ContainerStateTerminated) {
    let pause = restart_pause(status.restart_count);
    let message = back_off_message(pod, &status.name, pause.as_secs());
    status.last_state = Some(ContainerState { terminated: Some(ended.clone()), ..ContainerState::default() });
    status.state = Some(waiting("CrashLoopBackOff", Some(message)));
}

/// Whether the container should run another image than it does.
fn is_redefined(status: &ContainerStatus, container: &Container) -> bool {
    container.image.as_deref().is_some_and(|image| status.image != image)
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

/// The end that a container in back-off waits after.
fn backing_off(status: &ContainerStatus) -> Option<ContainerStateTerminated> {
    let reason = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref();
    (reason == Some("CrashLoopBackOff")).then(|| status.last_state.as_ref()?.terminated.clone())?
}

fn restart(status: &mut ContainerStatus, container: &Container, at: Timestamp) {
    if let Some(ended) = status.state.as_ref().and_then(|state| state.terminated.clone()) {
        status.last_state = Some(ContainerState { terminated: Some(ended), ..ContainerState::default() });
    }
    status.restart_count += 1;
    run(status, container, at);
}

/// A simulated init container succeeds the moment that the pod starts.
fn finished_init(container: &Container, stored: &PodStatus, at: Timestamp) -> ContainerStatus {
    let known = stored.init_container_statuses.iter().flatten().find(|s| s.name == container.name);
    known.cloned().unwrap_or_else(|| {
        let mut status = created(container);
        run(&mut status, container, at);
        exit(&mut status, at, at, 0);
        status.ready = true;
        status
    })
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
