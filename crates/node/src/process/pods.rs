//! The process pods of this process: their running containers, the runs known of each, and how each is stopped.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use setpoint::{Key, Recorder, clock::Clock, recorder::EventType};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::attach::Attachment;
use super::container::Container;
use super::exec::ExecCommand;
use super::init::Launch;
use super::lasting;
use super::mounts::Names;
use super::own_folder;
use super::plan::{Run, Runs, is_sidecar, whole_seconds};
use super::supervised::{Condition, End};
use crate::address::PodPorts;
use crate::events::PodEvents;
use crate::log::Log;

/// Capacity of the channel that queues pods for a reconcile. When it is full, a reconcile is coming anyway.
pub const WAKES: usize = 1024;
/// The reason for which a container with a changed image ends.
const REDEFINED: &str = "definition changed";

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The process pods. Clones share them.
#[derive(Clone)]
pub struct ProcessPods(pub(super) Arc<Shared>);

pub(super) struct Shared {
    folder: PathBuf,
    pub helper: PathBuf,
    pub clock: Clock,
    recorder: Recorder,
    wake: mpsc::Sender<Key>,
    pods: Mutex<BTreeMap<Key, Entry>>,
    /// Set when the node stops: no container starts any more.
    pub stopping: AtomicBool,
    /// Counts ends of containers, so that a task can wait for the last one.
    ended: watch::Sender<u64>,
    /// Counter that separates the input pipes of exec sessions.
    sessions: AtomicU64,
}

/// Time that containers have to end when the node stops. The rest end when their control sockets close.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// One pod.
pub(super) struct Entry {
    pub uid: String,
    pod: Arc<Pod>,
    pub ports: PodPorts,
    references: Names,
    pub runs: BTreeMap<String, Runs>,
    pub containers: BTreeMap<String, Running>,
    pub logs: BTreeMap<String, Logs>,
    told_to_stop: bool,
}

#[derive(Default)]
pub(super) struct Logs {
    pub current: Option<Log>,
    pub previous: Option<Log>,
}

impl ProcessPods {
    /// Creates an empty set of pods. `wake` is notified when a pod should be looked at again.
    pub fn new(
        (folder, helper): (PathBuf, PathBuf),
        clock: Clock,
        recorder: Recorder,
        wake: mpsc::Sender<Key>,
    ) -> Self {
        ProcessPods(Arc::new(Shared {
            folder,
            helper,
            clock,
            recorder,
            wake,
            pods: Mutex::default(),
            stopping: AtomicBool::new(false),
            ended: watch::Sender::default(),
            sessions: AtomicU64::new(0),
        }))
    }

    /// Kills every container when `stop` is cancelled, and waits for their ends.
    pub(crate) async fn stop_with(self, stop: CancellationToken) {
        stop.cancelled().await;
        self.0.stopping.store(true, Ordering::Release);
        let mut ended = self.0.ended.subscribe();
        for running in self.pods().values().flat_map(|entry| entry.containers.values()) {
            running.signal(SIGKILL);
        }
        let gone = ended.wait_for(|_| self.pods().values().all(|entry| !entry.has_programs()));
        let _ = tokio::time::timeout(STOP_WITHIN, gone).await;
    }

    /// Locks the pods.
    pub(super) fn pods(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.0.pods.lock().expect("no holder of this lock panics")
    }

    /// Returns the folder of a pod's files.
    pub fn folder(&self, uid: &str) -> PathBuf {
        self.0.folder.join("pods").join(uid)
    }

    /// Returns the folder of a PersistentVolume's files.
    pub fn volume_folder(&self, volume: &str) -> Option<PathBuf> {
        lasting::folder(&self.0.folder, volume)
    }

    /// Creates the folder of a PersistentVolume.
    pub fn make_volume(&self, volume: &str) -> io::Result<()> {
        lasting::make(&self.0.folder, volume)
    }

    /// Creates the folder of a pod, which holds Secrets.
    pub fn make_folder(&self, uid: &str) -> io::Result<()> {
        own_folder::make(&self.0.folder.join("pods"))?;
        own_folder::make(&self.folder(uid))
    }

    /// Adds the pod. A pod of the same name with another uid is stopped at once.
    pub fn admit(&self, key: &Key, pod: &Pod, ports: PodPorts, references: Names) {
        let uid = pod.uid().unwrap_or_default();
        let mut pods = self.pods();
        if pods.get(key).is_some_and(|entry| entry.uid != uid) {
            pods.remove(key);
        }
        let entry = pods.entry(key.clone()).or_insert_with(|| Entry {
            uid,
            pod: Arc::new(pod.clone()),
            ports,
            references: Names::default(),
            runs: runs_of(pod),
            containers: BTreeMap::new(),
            logs: BTreeMap::new(),
            told_to_stop: false,
        });
        entry.references = references;
    }

    /// Returns the known runs of a pod's containers.
    pub fn runs(&self, key: &Key) -> BTreeMap<String, Runs> {
        self.pods().get(key).map(|entry| entry.runs.clone()).unwrap_or_default()
    }

    /// Returns the pods that read a ConfigMap, Secret or claim of that name, to reconcile them again.
    pub fn readers(&self, namespace: &str, is_reader: impl Fn(&Names) -> bool) -> Vec<Key> {
        let pods = self.pods();
        let readers = pods
            .iter()
            .filter(|(key, entry)| key.namespace() == Some(namespace) && is_reader(&entry.references));
        readers.map(|(key, _)| key.clone()).collect()
    }

    /// Records that a container cannot be started now.
    pub fn refuse(&self, key: &Key, name: &str, reason: &str, message: String) {
        let at = self.0.clock.now();
        if let Some(entry) = self.pods().get_mut(key) {
            let runs = entry.runs.entry(name.to_owned()).or_default();
            runs.run = Run::Refused { reason: reason.into(), message, at };
        }
    }

    /// Asks every container to stop, or kills them if `kill` is set. Returns true if none runs.
    pub fn stop(&self, key: &Key, kill: bool) -> bool {
        let mut pods = self.pods();
        let Some(entry) = pods.get_mut(key) else { return true };
        let pod_events = PodEvents::of(&self.0.recorder, &entry.pod);
        for (name, running) in &entry.containers {
            if !entry.told_to_stop {
                pod_events.container(
                    EventType::Normal,
                    name,
                    "Killing",
                    format!("Stopping container {name}"),
                );
            }
            if kill {
                running.signal(SIGKILL);
            } else if !entry.told_to_stop {
                running.signal(SIGTERM);
            }
        }
        entry.told_to_stop = true;
        !entry.has_programs()
    }

    /// Ends the containers whose image was changed. Ends the back-off of those that wait for their next start.
    pub fn redefine(&self, key: &Key, pod: &Pod, grace: Duration) {
        let spec = pod.spec.iter();
        let containers = spec.flat_map(|spec| {
            let sidecars = spec.init_containers.iter().flatten().filter(|init| is_sidecar(init));
            spec.containers.iter().chain(sidecars)
        });
        let mut simulated = Vec::new();
        let mut pods = self.pods();
        let Some(entry) = pods.get_mut(key) else { return };
        for container in containers {
            let Some(runs) = entry.runs.get_mut(&container.name) else { continue };
            let wanted = container.image.as_deref().unwrap_or_default();
            if runs.redefined || runs.image.is_empty() || runs.image == wanted {
                continue;
            }
            // The new image has not failed yet.
            runs.failures = 0;
            let Some(running) = entry.containers.get_mut(&container.name) else { continue };
            runs.redefined = true;
            match running.kind {
                RunKind::Simulated => simulated.push(&container.name),
                RunKind::Process { .. } => {
                    let (pods, key, name) = (self.clone(), key.clone(), container.name.clone());
                    running.tasks.spawn(async move { pods.kill(&key, &name, REDEFINED, grace).await });
                }
            }
        }
        drop(pods);
        for name in simulated {
            self.tell_killing(key, name, REDEFINED);
            self.ended(key, name, &End { code: 0, signal: None, message: None }, None);
        }
    }

    /// Asks one container's present run to end, and kills it after the grace period. The end is handled like any
    /// other, and drops the task that runs this function.
    pub(super) async fn kill(&self, key: &Key, name: &str, why: &str, grace: Duration) {
        self.tell_killing(key, name, why);
        self.signal(key, name, SIGTERM);
        tokio::time::sleep(grace).await;
        self.signal(key, name, SIGKILL);
    }

    fn signal(&self, key: &Key, name: &str, signal: i32) {
        if let Some(running) = self.pods().get(key).and_then(|entry| entry.containers.get(name)) {
            running.signal(signal);
        }
    }

    /// Records an event about a pod.
    pub(super) fn record(&self, key: &Key, event: impl FnOnce(&PodEvents<'_>)) {
        let pod = self.pods().get(key).map(|entry| entry.pod.clone());
        if let Some(pod) = pod {
            event(&PodEvents::of(&self.0.recorder, &pod));
        }
    }

    fn tell_killing(&self, key: &Key, name: &str, why: &str) {
        let message = format!("Container {name} {why}, will be restarted");
        self.record(key, |pod_events| pod_events.container(EventType::Normal, name, "Killing", message));
    }

    /// Forgets a pod: kills the rest of its programs, and removes its files.
    pub fn forget(&self, key: &Key) {
        let Some(entry) = self.pods().remove(key) else { return };
        // A folder that cannot be removed now is found at the next start.
        let _ = std::fs::remove_dir_all(self.folder(&entry.uid));
    }

    /// Whether this pod runs here.
    pub fn knows(&self, key: &Key) -> bool {
        self.pods().contains_key(key)
    }

    /// Returns the log of a container's present run, or of the previous one.
    pub fn log(&self, key: &Key, name: &str, previous: bool) -> Option<Log> {
        let pods = self.pods();
        let logs = pods.get(key)?.logs.get(name)?;
        if previous { logs.previous.clone() } else { logs.current.clone() }
    }

    /// Returns the program that runs a command beside a container's program, or `None` if the container does not run.
    pub fn exec(&self, key: &Key, name: &str, command: Vec<String>) -> Option<ExecCommand> {
        let pods = self.pods();
        let entry = pods.get(key)?;
        let RunKind::Process { container, launch } = &entry.containers.get(name)?.kind else { return None };
        let beside = container.condition();
        if matches!(*beside.borrow(), Condition::Ended(_)) {
            return None;
        }
        let session = self.0.sessions.fetch_add(1, Ordering::Relaxed);
        let stdin =
            self.folder(&entry.uid).join("containers").join(name).join(format!("exec-{session}.stdin"));
        let mut launch = launch.clone();
        launch.command = command;
        launch.view.mounts = Vec::new();
        Some(ExecCommand { helper: self.0.helper.clone(), launch, stdin, beside })
    }

    /// Returns a running container's own streams.
    pub fn attach(&self, key: &Key, name: &str) -> Option<Attachment> {
        let pods = self.pods();
        let RunKind::Process { container, .. } = &pods.get(key)?.containers.get(name)?.kind else {
            return None;
        };
        let (stdin, once) = container.stdin();
        Some(Attachment {
            output: container.output().follow(),
            stdin,
            once,
            condition: container.condition(),
        })
    }

    /// Returns the addresses on which the pod's processes listen.
    pub fn ports(&self, key: &Key) -> Option<PodPorts> {
        self.pods().get(key).map(|entry| entry.ports.clone())
    }

    pub(super) fn change(&self, key: &Key, name: &str, change: impl FnOnce(&mut Runs)) {
        if let Some(entry) = self.pods().get_mut(key) {
            change(entry.runs.entry(name.to_owned()).or_default());
        }
        self.wake(key);
    }

    /// Records the end of a run. No program of the run is left.
    pub(super) fn ended(&self, key: &Key, name: &str, end: &End, words: Option<String>) {
        let now = self.0.clock.now();
        let mut pods = self.pods();
        let Some(entry) = pods.get_mut(key) else { return };
        let runs = entry.runs.entry(name.to_owned()).or_default();
        let since = match &runs.run {
            Run::Running { since } => *since,
            _ => now,
        };
        let kind = if runs.simulated { "simulated" } else { "process" };
        let id = format!("{kind}://{name}-{}", runs.restarts);
        runs.run = Run::Ended(terminated(end, words, (since, now), id));
        runs.ready = false;
        runs.started = false;
        // The calling task belongs to the removed entry: only the wake may follow the removal.
        let gone = entry.containers.remove(name);
        drop(pods);
        self.0.ended.send_modify(|count| *count += 1);
        self.wake(key);
        drop(gone);
    }

    fn wake(&self, key: &Key) {
        let _ = self.0.wake.try_send(key.clone());
    }
}

/// Returns the end of a run in the form of the pod's status.
pub(super) fn terminated(
    end: &End,
    words: Option<String>,
    (since, now): (Timestamp, Timestamp),
    container_id: String,
) -> ContainerStateTerminated {
    let reason = match (&end.message, end.code) {
        (Some(_), _) => "StartError",
        (None, 0) => "Completed",
        _ => "Error",
    };
    ContainerStateTerminated {
        container_id: Some(container_id),
        exit_code: end.code,
        signal: end.signal,
        reason: Some(reason.into()),
        message: end.message.clone().or(words),
        started_at: Some(Time(whole_seconds(since))),
        finished_at: Some(Time(whole_seconds(now))),
    }
}

/// Derives runs before this process from the stored status: a container that ran then does not run now.
fn runs_of(pod: &Pod) -> BTreeMap<String, Runs> {
    let status = pod.status.clone().unwrap_or_default();
    let statuses = status
        .container_statuses
        .into_iter()
        .flatten()
        .chain(status.init_container_statuses.into_iter().flatten());
    let mut runs = BTreeMap::new();
    for status in statuses {
        let state = status.state.unwrap_or_default();
        let run = match (state.terminated, state.running) {
            (Some(end), _) => Run::Ended(end),
            (None, Some(running)) => Run::Ended(ContainerStateTerminated {
                exit_code: 255,
                reason: Some("Unknown".into()),
                message: Some("the node was stopped while the container ran".into()),
                started_at: running.started_at.clone(),
                finished_at: running.started_at,
                ..ContainerStateTerminated::default()
            }),
            _ => Run::Waiting,
        };
        let last = status.last_state.and_then(|state| state.terminated);
        let known =
            Runs { run, restarts: status.restart_count, last, image: status.image, ..Runs::default() };
        runs.insert(status.name, known);
    }
    runs
}

impl Entry {
    fn has_programs(&self) -> bool {
        self.containers.values().any(|running| matches!(running.kind, RunKind::Process { .. }))
    }
}

/// A container's present run. Dropping it ends it.
pub(super) struct Running {
    pub kind: RunKind,
    pub tasks: JoinSet<()>,
}

pub(super) enum RunKind {
    /// A program of this host.
    Process { container: Box<Container>, launch: Box<Launch> },
    /// No program. The tasks follow a script.
    Simulated,
}

impl Running {
    fn signal(&self, signal: i32) {
        if let RunKind::Process { container, .. } = &self.kind {
            container.signal(signal);
        }
    }
}

/// Returns the time at which a pod that was asked to stop is killed.
pub fn deadline(pod: &Pod) -> Option<Timestamp> {
    let at = pod.metadata.deletion_timestamp.as_ref()?.0;
    // The stored time is truncated to whole seconds. No pod gets less than the grace period.
    Some(at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at))
}
