//! Starts the runs of containers: the program or the script, and the tasks that follow and probe it.

use std::io;
use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};
use setpoint::Key;
use tokio::task::JoinSet;

use super::container::{Container, Input};
use super::init::Launch;
use super::output::Output;
use super::plan::{Run, Runs};
use super::pods::{ProcessPods, RunKind, Running};
use super::probing::{self, Probes};
use super::running::{Message, Watch};
use crate::annotation::Script;
use crate::log::Log;

/// A container that ran this long restarts at once, as if it had never failed.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// Inputs for the start of one run of a container.
pub struct Start {
    /// The container.
    pub name: String,
    /// Its image.
    pub image: String,
    /// The program to run.
    pub kind: StartKind,
}

/// The program of a new run.
pub enum StartKind {
    /// A program of this host.
    Process {
        /// The message for the helper. Its root is chosen here.
        launch: Box<Launch>,
        /// The container's input. The path of its pipe is chosen here.
        input: Input,
        /// Its probes.
        probes: Box<Probes>,
        /// The location of its termination message.
        message: Message,
    },
    /// A simulated run with this script.
    Simulated(Script),
}

impl ProcessPods {
    /// Starts the next run of a container.
    pub fn start(&self, key: &Key, start: Start) -> io::Result<()> {
        let mut pods = self.pods();
        if self.0.stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(entry) = pods.get_mut(key) else { return Ok(()) };
        let now = self.0.clock.now();
        let mut runs = entry.runs.get(&start.name).cloned().unwrap_or_default().again(now);
        let folder = self.folder(&entry.uid).join("containers").join(&start.name);
        let log = Log::open(&folder.join(format!("{}.log", runs.restarts)))?;
        let output = Output::new(log.clone(), self.0.clock.clone());
        let watch = Watch { pods: self.clone(), key: key.clone(), name: start.name.clone() };
        let mut tasks = JoinSet::new();
        let kind = match start.kind {
            StartKind::Process { mut launch, mut input, probes, message } => {
                launch.root = folder.join(format!("{}.root", runs.restarts));
                std::fs::create_dir_all(&launch.root)?;
                input.stdin = input.stdin.map(|_| folder.join(format!("{}.stdin", runs.restarts)));
                let container = Container::start(&self.0.helper, &launch, &input, output)?;
                runs.ready = probes.readiness.is_none() && probes.startup.is_none();
                runs.started = probes.startup.is_none();
                tasks.spawn(watch.clone().until_end(container.condition(), message, log.clone()));
                tasks.spawn(probing::run(watch, *probes, entry.ports.clone()));
                RunKind::Process { container: Box::new(container), launch }
            }
            StartKind::Simulated(script) => {
                runs.ready = script.ready_delay.is_zero();
                runs.started = true;
                runs.simulated = true;
                tasks.spawn(watch.simulate(script, output));
                RunKind::Simulated
            }
        };
        runs.run = Run::Running { since: now };
        runs.image = start.image;
        let logs = entry.logs.entry(start.name.clone()).or_default();
        logs.previous = logs.current.replace(log);
        entry.runs.insert(start.name.clone(), runs);
        entry.containers.insert(start.name, Running { kind, tasks });
        Ok(())
    }
}

impl Runs {
    /// Returns the runs at the start of the next run.
    fn again(mut self, now: Timestamp) -> Runs {
        if let Run::Ended(end) = &self.run {
            let began = end.started_at.as_ref().map_or(now, |time| time.0);
            let finished = end.finished_at.as_ref().map_or(now, |time| time.0);
            let long = finished.duration_since(began) >= FORGIVEN_AFTER;
            self.failures = if long { 1 } else { self.failures.saturating_add(1) };
            self.last = Some(end.clone());
            self.restarts += 1;
        }
        self.redefined = false;
        self
    }
}
