//! The process pods of this process: their running containers, what is known of them, and how each is stopped.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use setpoint::{Clock, Key, Request};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::container::{Condition, Container, End};
use super::init::Launch;
use super::mounts::Names;
use super::plan::{Run, Runs, whole_seconds};
use crate::log::Log;
use crate::probe::Schedule;

/// Wishes for a pod to be looked at again; when full, a look is under way anyway.
pub const WAKES: usize = 1024;
/// A termination message longer than this is cut, as a kubelet cuts it.
const MESSAGE_BYTES: usize = 4096;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// The process pods. Clones are the same.
#[derive(Clone)]
pub struct ProcessPods(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    helper: PathBuf,
    clock: Clock,
    wake: mpsc::Sender<Request>,
    pods: Mutex<BTreeMap<Key, Entry>>,
    /// Nothing starts any more.
    stopping: AtomicBool,
    /// Counts ends of containers, for who waits for the last.
    ended: watch::Sender<u64>,
}

/// How long containers may take to end when the node stops; what is left then ends with its control pipe.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// One pod.
struct Entry {
    uid: String,
    address: Ipv4Addr,
    references: Names,
    runs: BTreeMap<String, Runs>,
    containers: BTreeMap<String, Running>,
    logs: BTreeMap<String, Logs>,
    told_to_stop: bool,
}

/// A container's process with the tasks that watch and probe it.
struct Running {
    container: Container,
    pid: Option<i32>,
    environment: BTreeMap<String, String>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Logs {
    current: Option<Log>,
    previous: Option<Log>,
}

/// What is needed to start one run of a container.
pub struct Start {
    /// The container's name.
    pub name: String,
    /// What the helper is told; its root is chosen here.
    pub launch: Launch,
    /// Its probes.
    pub probes: Probes,
    /// The file whose end is its termination message, on the host.
    pub message: Option<PathBuf>,
}

/// The probes of one container.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Gates the other two.
    pub startup: Option<Schedule>,
    /// Decides whether it is ready.
    pub readiness: Option<Schedule>,
    /// Restarts it.
    pub liveness: Option<Schedule>,
}

impl ProcessPods {
    /// None yet. `wake` is told when a pod should be looked at again.
    pub fn new(folder: PathBuf, helper: PathBuf, clock: Clock, wake: mpsc::Sender<Request>) -> Self {
        ProcessPods(Arc::new(Shared {
            folder,
            helper,
            clock,
            wake,
            pods: Mutex::default(),
            stopping: AtomicBool::new(false),
            ended: watch::Sender::default(),
        }))
    }

    /// Kills every container when the node is told to stop, and waits for their ends.
    pub(crate) async fn stop_with(self, stop: CancellationToken) {
        stop.cancelled().await;
        self.0.stopping.store(true, Ordering::Release);
        let mut ended = self.0.ended.subscribe();
        for running in self.pods().values().flat_map(|entry| entry.containers.values()) {
            running.container.signal(SIGKILL);
        }
        let gone = ended.wait_for(|_| self.pods().values().all(|entry| entry.containers.is_empty()));
        let _ = tokio::time::timeout(STOP_WITHIN, gone).await;
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.0.pods.lock().expect("no holder of this lock panics")
    }

    /// Where a pod's files are.
    pub fn folder(&self, uid: &str) -> PathBuf {
        self.0.folder.join("pods").join(uid)
    }

    /// Makes the pod known; one that was there under the name with another uid is stopped at once.
    pub fn admit(&self, key: &Key, pod: &Pod, address: Ipv4Addr, references: Names) {
        let uid = pod.uid().unwrap_or_default();
        let mut pods = self.pods();
        if pods.get(key).is_some_and(|entry| entry.uid != uid) {
            pods.remove(key);
        }
        let entry = pods.entry(key.clone()).or_insert_with(|| Entry {
            uid,
            address,
            references: Names::default(),
            runs: runs_of(pod),
            containers: BTreeMap::new(),
            logs: BTreeMap::new(),
            told_to_stop: false,
        });
        entry.references = references;
    }

    /// What is known of a pod's containers.
    pub fn runs(&self, key: &Key) -> BTreeMap<String, Runs> {
        self.pods().get(key).map(|entry| entry.runs.clone()).unwrap_or_default()
    }

    /// The pods that read a ConfigMap or Secret of that name, for looking at them again.
    pub fn readers(&self, namespace: &str, is_reader: impl Fn(&Names) -> bool) -> Vec<Request> {
        let pods = self.pods();
        let readers = pods
            .iter()
            .filter(|(key, entry)| key.namespace() == Some(namespace) && is_reader(&entry.references));
        readers.map(|(key, _)| Request::from(key.clone())).collect()
    }

    /// A container that cannot be started as things are.
    pub fn refuse(&self, key: &Key, name: &str, reason: &str, message: String) {
        self.change(key, name, |runs| runs.run = Run::Refused { reason: reason.into(), message });
    }

    /// Starts the next run of a container.
    pub fn start(&self, key: &Key, start: Start) -> io::Result<()> {
        let mut pods = self.pods();
        if self.0.stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(entry) = pods.get_mut(key) else { return Ok(()) };
        let runs = entry.runs.entry(start.name.clone()).or_default();
        if let Run::Ended(end) = &runs.run {
            runs.last = Some(end.clone());
            runs.restarts += 1;
        }
        let folder = self.folder(&entry.uid).join("containers").join(&start.name);
        let log = Log::open(&folder.join(format!("{}.log", runs.restarts)))?;
        let mut launch = start.launch;
        launch.root = folder.join(format!("{}.root", runs.restarts));
        std::fs::create_dir_all(&launch.root)?;
        let container = Container::start(&self.0.helper, &launch, log.clone(), self.0.clock.clone())?;
        runs.run = Run::Running { since: self.0.clock.now() };
        runs.ready = start.probes.readiness.is_none() && start.probes.startup.is_none();
        runs.started = start.probes.startup.is_none();
        let logs = entry.logs.entry(start.name.clone()).or_default();
        logs.previous = logs.current.replace(log);
        let watch = Watch { pods: self.clone(), key: key.clone(), name: start.name.clone() };
        let mut tasks = JoinSet::new();
        tasks.spawn(watch.clone().until_end(container.condition(), start.message));
        tasks.spawn(super::probing::run(watch, start.probes, IpAddr::V4(entry.address)));
        let environment = launch.environment;
        entry.containers.insert(start.name, Running { container, pid: None, environment, _tasks: tasks });
        Ok(())
    }

    /// Tells every container to stop, and kills what is left when the grace period is over. True when none runs.
    pub fn stop(&self, key: &Key, kill: bool) -> bool {
        let mut pods = self.pods();
        let Some(entry) = pods.get_mut(key) else { return true };
        for running in entry.containers.values() {
            if kill {
                running.container.signal(SIGKILL);
            } else if !entry.told_to_stop {
                running.container.signal(SIGTERM);
            }
        }
        entry.told_to_stop = true;
        entry.containers.is_empty()
    }

    /// Kills one container's present run; its end is seen as any other.
    pub fn kill(&self, key: &Key, name: &str) {
        if let Some(running) = self.pods().get(key).and_then(|entry| entry.containers.get(name)) {
            running.container.signal(SIGKILL);
        }
    }

    /// Forgets a pod: what still runs is killed, and its files go.
    pub fn forget(&self, key: &Key) {
        let Some(entry) = self.pods().remove(key) else { return };
        // What cannot be removed now is found at the next start.
        let _ = std::fs::remove_dir_all(self.folder(&entry.uid));
    }

    /// Whether this pod is one of ours.
    pub fn knows(&self, key: &Key) -> bool {
        self.pods().contains_key(key)
    }

    /// The log of a container's present run, or of the one before.
    pub fn log(&self, key: &Key, name: &str, previous: bool) -> Option<Log> {
        let pods = self.pods();
        let logs = pods.get(key)?.logs.get(name)?;
        if previous { logs.previous.clone() } else { logs.current.clone() }
    }

    /// The process and environment of a running container.
    pub fn process(&self, key: &Key, name: &str) -> Option<(i32, BTreeMap<String, String>)> {
        let pods = self.pods();
        let running = pods.get(key)?.containers.get(name)?;
        Some((running.pid?, running.environment.clone()))
    }

    /// Where the pod's processes listen.
    pub fn address(&self, key: &Key) -> Option<Ipv4Addr> {
        self.pods().get(key).map(|entry| entry.address)
    }

    /// The program with the hidden subcommands.
    pub fn helper(&self) -> &PathBuf {
        &self.0.helper
    }

    pub(super) fn change(&self, key: &Key, name: &str, change: impl FnOnce(&mut Runs)) {
        if let Some(entry) = self.pods().get_mut(key) {
            change(entry.runs.entry(name.to_owned()).or_default());
        }
        self.wake(key);
    }

    fn wake(&self, key: &Key) {
        let _ = self.0.wake.try_send(Request::from(key.clone()));
    }
}

/// What the stored status tells of runs before this process: a container that ran then does not run now.
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
        let known = Runs { run, restarts: status.restart_count, last, ready: false, started: false };
        runs.insert(status.name, known);
    }
    runs
}

/// The task that follows one run.
#[derive(Clone)]
pub(super) struct Watch {
    pub pods: ProcessPods,
    pub key: Key,
    pub name: String,
}

impl Watch {
    async fn until_end(self, mut condition: watch::Receiver<Condition>, message: Option<PathBuf>) {
        loop {
            let now = condition.borrow_and_update().clone();
            match now {
                Condition::Running { pid } => self.set_pid(pid),
                Condition::Ended(end) => return self.ended(end, message),
                Condition::Starting => {}
            }
            if condition.changed().await.is_err() {
                return;
            }
        }
    }

    fn set_pid(&self, pid: i32) {
        if let Some(running) =
            self.pods.pods().get_mut(&self.key).and_then(|entry| entry.containers.get_mut(&self.name))
        {
            running.pid = Some(pid);
        }
    }

    fn ended(&self, end: End, message: Option<PathBuf>) {
        let now = self.pods.0.clock.now();
        let mut pods = self.pods.pods();
        let Some(entry) = pods.get_mut(&self.key) else { return };
        let runs = entry.runs.entry(self.name.clone()).or_default();
        let since = match &runs.run {
            Run::Running { since } => *since,
            _ => now,
        };
        runs.run = Run::Ended(terminated(&end, since, now, message, &self.name, runs.restarts));
        runs.ready = false;
        runs.started = false;
        // This task belongs to the entry that goes: nothing may follow its removal but the wake.
        let gone = entry.containers.remove(&self.name);
        drop(pods);
        self.pods.0.ended.send_modify(|count| *count += 1);
        self.pods.wake(&self.key);
        drop(gone);
    }
}

fn terminated(
    end: &End,
    since: Timestamp,
    now: Timestamp,
    message: Option<PathBuf>,
    name: &str,
    restarts: i32,
) -> ContainerStateTerminated {
    let reason = match (&end.message, end.code) {
        (Some(_), _) => "StartError",
        (None, 0) => "Completed",
        _ => "Error",
    };
    let written = message.and_then(|path| std::fs::read(path).ok()).filter(|bytes| !bytes.is_empty());
    let written = written.map(|mut bytes| {
        bytes.truncate(MESSAGE_BYTES);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    ContainerStateTerminated {
        container_id: Some(format!("process://{name}-{restarts}")),
        exit_code: end.code,
        signal: end.signal,
        reason: Some(reason.into()),
        message: end.message.clone().or(written),
        started_at: Some(Time(whole_seconds(since))),
        finished_at: Some(Time(whole_seconds(now))),
    }
}

/// When a pod that was told to stop is killed.
pub fn deadline(pod: &Pod) -> Option<Timestamp> {
    let at = pod.metadata.deletion_timestamp.as_ref()?.0;
    // The stored time is in whole seconds, cut: a grace of one second must not become none.
    Some(at + SignedDuration::from_millis(500))
}
