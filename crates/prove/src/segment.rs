//! One run: a cluster from a checkpoint, the operator on it, and some steps of the life.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use setpoint::clock::Random;
use setpoint_cluster::{Checkpoint, Cluster, ClusterError};
use setpoint_store::{Event, Snapshot, Store};

use crate::bystander::Mark;
use crate::life::{Action, LifeError};
use crate::plan::{Fault, Plan};
use crate::resource::{ObjectName, of_key};
use crate::rest::{Commits, Unrest, rest};
use crate::settings::{Pace, Settings};
use crate::state::{self, Scope, State};
use crate::subject::Subject;
use crate::traffic::{Delivered, Sent};
use crate::wire::{Signal, Wire};

mod processes;
mod script;

use processes::Processes;

/// The reason why a run could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The life is wrong.
    #[error(transparent)]
    Life(#[from] LifeError),
    /// The server refuses an object of the manifests.
    #[error("the manifest of {object}: {}", words(source))]
    Manifest {
        /// Its kind and name.
        object: String,
        /// The cause.
        source: Box<LifeError>,
    },
}

/// The choice of what runs.
#[derive(Clone)]
pub struct Segment<'a> {
    /// The program.
    pub subject: &'a Subject,
    /// The bounds.
    pub settings: &'a Settings,
    /// The whole life.
    pub life: &'a [Action],
    /// The state to begin with.
    pub from: &'a Checkpoint,
    /// The index of the first step.
    pub first: usize,
    /// The number of steps.
    pub count: usize,
    /// The fault.
    pub plan: Option<&'a Plan>,
    /// Seed of benign delays.
    pub jitter: Option<u64>,
    /// Whether the operator starts only after two steps: it sees what both left.
    pub asleep: bool,
    /// The watches by which a started operator is known to be ready. Only in real time.
    pub ready: Option<&'a BTreeSet<String>>,
}

/// A state that ends a run early: the same as in the undisturbed run.
pub struct Goal<'a> {
    /// The state.
    pub state: &'a State,
    /// Its scope.
    pub scope: &'a Scope,
    /// Fields that may differ.
    pub masks: &'a BTreeSet<state::Place>,
}

/// The end of one step, or of two steps that a fault joined.
#[derive(Clone)]
pub struct Outcome {
    /// The index of the last step.
    pub step: usize,
    /// Whether and how rest failed.
    pub unrest: Option<Unrest>,
    /// Whether the fault struck, and another replica took over if that is the fault.
    pub struck: bool,
    /// The state at the beginning of the step.
    pub before: Snapshot,
    /// The state at the end.
    pub after: Snapshot,
    /// The commits of the step.
    pub events: Vec<Arc<Event>>,
    /// The number of creations and deletions of each object.
    pub churn: BTreeMap<ObjectName, (usize, usize)>,
    /// The requests of the operator.
    pub sent: Vec<Sent>,
    /// The events that the operator saw.
    pub delivered: Vec<Delivered>,
    /// The reasons why processes of the operator ended by themselves.
    pub exits: Vec<String>,
    /// The writes with which the operator changed something when it started, before the first step.
    pub woke: Vec<Sent>,
    /// The number of panics that the operator caught.
    pub panics: u64,
    /// A mark of somebody else that the operator removed.
    pub lost: Option<Mark>,
    /// Resources whose first state the operator took from a cache of the server, which may be old.
    pub cached: BTreeSet<String>,
    /// The watches that the operator had opened when it was at rest before the first step.
    pub watched: BTreeSet<String>,
    /// The longest time that the operator waited before it wrote by itself. Only in real time.
    pub pause: Duration,
    /// The state, for later runs.
    pub checkpoint: Checkpoint,
}

/// The end of a run.
pub enum Ran {
    /// The outcomes of its steps.
    Done(Vec<Outcome>),
    /// The operator restarted in a state that was visited before.
    Known,
}

/// Runs a future on a runtime of its own. Its time is virtual, unless the pace says otherwise.
pub fn simulate<T>(pace: &Pace, future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = if pace.real { builder.enable_all() } else { builder.enable_time().start_paused(true) };
    builder.build().expect("the system has resources for one more runtime").block_on(future)
}

/// Returns the server's own words about a refused object.
fn words(error: &LifeError) -> String {
    match error {
        LifeError::Refused { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}

/// A running cluster with the operator.
struct World<'a> {
    segment: &'a Segment<'a>,
    cluster: Cluster,
    wire: Wire,
    commits: Commits,
    processes: Processes,
    panics: Vec<Box<dyn Fn() -> u64 + Send>>,
    exits: Vec<String>,
    woke: Vec<Sent>,
    /// A mark of somebody else that the operator removed.
    lost: Option<Mark>,
    /// The revision at the beginning of the step.
    began: u64,
    /// Seconds by which the operator's clock is wrong.
    skew: Arc<AtomicI64>,
    watched: BTreeSet<String>,
    /// The standby, in runs with two replicas.
    standby: u32,
    /// Restart states of earlier runs.
    visited: &'a mut BTreeSet<(usize, u64)>,
}

/// Runs a segment. `goals` are the states that end a step early, by index of the step.
///
/// # Errors
/// If the cluster does not start or a step is refused.
pub async fn run(
    segment: &Segment<'_>,
    goal: Option<&Goal<'_>>,
    visited: &mut BTreeSet<(usize, u64)>,
) -> Result<Ran, RunError> {
    let pace = &segment.settings.pace;
    let cluster = match pace.real {
        true => segment.from.start_with(setpoint::clock::system_clock()).await?,
        false => segment.from.start().await?,
    };
    let jitter = segment.jitter.map(Random::from_seed);
    let ready = segment.ready.cloned().unwrap_or_default();
    let wire = Wire::new(cluster.store().clone(), jitter, pace.clone(), ready);
    let wire = wire.with_webhooks(segment.subject.webhooks.clone());
    if !segment.settings.watch_list {
        wire.lists_instead();
    }
    let commits = Commits::of(cluster.store());
    let mut world = World {
        segment,
        cluster,
        wire,
        commits,
        processes: Processes::default(),
        panics: Vec::new(),
        exits: Vec::new(),
        woke: Vec::new(),
        lost: None,
        began: 0,
        skew: Arc::default(),
        watched: BTreeSet::new(),
        standby: 0,
        visited,
    };
    let fault = segment.plan.map(|plan| plan.at.clone());
    let before = world.store().snapshot();
    let settled = world.begin_to_live(&fault).await;
    // A process that ends at its start would do so in each step, and each time the wait for it is long.
    let ends = pace.real && segment.plan.is_none() && !world.exits.is_empty();
    if settled.is_err() || ends {
        let outcome = world.outcome(segment.first, before, settled.err());
        return Ok(Ran::Done(vec![outcome]));
    }
    world.watched = world.wire.watched();
    world.woke = world.wire.record().0.into_iter().filter(|sent| sent.revision.is_some()).collect();
    let joined = 1 + usize::from(segment.asleep || fault.as_ref().is_some_and(Fault::spans_two_steps));
    let mut outcomes = Vec::new();
    let mut step = segment.first;
    while step < segment.first + segment.count {
        world.wire.arm(fault.clone());
        let before = world.store().snapshot();
        world.began = before.revision();
        let last_step = (step + joined - 1).min(segment.life.len() - 1);
        let Some(ended) = world.live(step, last_step, &fault, goal).await? else { return Ok(Ran::Known) };
        let unrest = ended.err();
        let stop = unrest.is_some();
        outcomes.push(world.outcome(last_step, before, unrest));
        if stop {
            break;
        }
        step = last_step + 1;
    }
    Ok(Ran::Done(outcomes))
}

impl World<'_> {
    fn store(&self) -> &Store {
        self.cluster.store()
    }

    /// Lets a started operator look at what is there.
    async fn settle(&mut self) -> Result<(), Unrest> {
        let (wire, commits, settings) = (self.wire.clone(), self.commits.clone(), self.segment.settings);
        // Before its watches are known, only a long silence tells that a process has started.
        let known = !settings.pace.real || self.segment.ready.is_some() || self.segment.asleep;
        let patience = if known { settings.pace.settled } else { settings.patience };
        tokio::select! {
            biased;
            Some((incarnation, words)) = self.processes.ended() => {
                self.wire.end_process(incarnation);
                self.exits.push(words);
                Ok(())
            }
            rested = rest(&wire, &commits, patience, settings, || false) => rested.map(drop),
        }
    }

    /// Does a step, or two, and waits for rest. `None` if the run is a repetition of an earlier one.
    async fn live(
        &mut self,
        first: usize,
        last: usize,
        fault: &Option<Fault>,
        goal: Option<&Goal<'_>>,
    ) -> Result<Option<Result<(), Unrest>>, RunError> {
        let life = self.segment.life;
        if let (Some(Fault::Unseen { resource }), true) = (fault, last > first) {
            self.wire.hold(resource);
            life[first].perform(self.cluster.client()).await?;
            let unseen = self.segment.settings.pace.unseen;
            tokio::time::sleep(unseen).await;
            life[last].perform(self.cluster.client()).await?;
            tokio::time::sleep(unseen).await;
            self.wire.release(resource);
        } else {
            self.begin(first, fault).await?;
        }
        if self.segment.asleep {
            life[last].perform(self.cluster.client()).await?;
            self.boot(None);
        }
        let ended = match fault {
            // With the whole patience, the history that a stale start needs may be forgotten.
            Some(Fault::StaleRestart { steps, .. }) if *steps == 2 || self.segment.settings.pace.real => {
                Some(self.short_rest().await)
            }
            _ => self.until_rest((first, last), fault, goal).await?,
        };
        match (ended, fault) {
            (Some(Ok(())), Some(fault)) => self.sequel(first, last, fault, goal).await,
            (ended, _) => Ok(ended),
        }
    }

    /// Waits for rest. The steps are those whose restart and whose early beginning a fault may ask for.
    async fn until_rest(
        &mut self,
        (first, last): (usize, usize),
        fault: &Option<Fault>,
        goal: Option<&Goal<'_>>,
    ) -> Result<script::Ended, RunError> {
        let life = self.segment.life;
        let store = self.store().clone();
        let strikes = fault.as_ref().is_some_and(|fault| !fault.always_strikes());
        // A change by hand comes after rest, whatever the way to rest is.
        let later = matches!(fault, Some(Fault::Drift { .. }));
        let waits = strikes && !later && self.segment.settings.pace.real;
        let replicas = fault.as_ref().is_some_and(Fault::needs_replicas);
        let struck = self.wire.clone();
        let happened = || (!waits || struck.struck()) && (!replicas || struck.changed_leader());
        let reached = || happened() && goal.is_some_and(|goal| goal.reached(&store));
        loop {
            let (wire, settings) = (self.wire.clone(), self.segment.settings);
            let commits = self.commits.clone();
            tokio::select! {
                biased;
                signal = wire.signal() => match (signal, fault) {
                    (Signal::Crash(_), Some(Fault::CrashTwice { then, .. })) if self.processes.count() == 1 => {
                        self.kill().await;
                        self.free_leases().await;
                        self.boot(None);
                        self.wire.arm_again(Fault::CrashAfter { write: then.clone() });
                    }
                    (Signal::Crash(leader), Some(Fault::LeaderChange { .. })) => self.lose(leader).await,
                    (Signal::Crash(_), Some(Fault::StaleCrash { commits, order, .. })) => {
                        self.restart_in_the_past(*commits, order).await;
                    }
                    (Signal::Crash(_), _) if !self.restart(first).await => return Ok(None),
                    (Signal::Crash(_), _) => {}
                    (Signal::Replace(leader), _) => self.processes.stop(leader),
                    (Signal::NextStep, _) => {
                        life[last].perform(self.cluster.client()).await?;
                        self.wire.next_step_done();
                    }
                },
                Some((incarnation, words)) = self.processes.ended() => {
                    self.bury(incarnation, words, fault).await;
                }
                rested = rest(&wire, &commits, settings.patience, settings, &reached) => {
                    return Ok(Some(rested.map(drop)));
                }
            }
        }
    }

    fn outcome(&self, step: usize, before: Snapshot, unrest: Option<Unrest>) -> Outcome {
        let (sent, delivered) = self.wire.record();
        let events = self.commits.after(before.revision());
        Outcome {
            step,
            unrest,
            struck: self.wire.struck() && (self.standby == 0 || self.wire.changed_leader()),
            churn: churn(&events),
            events,
            before,
            after: self.store().snapshot(),
            sent,
            delivered,
            exits: self.exits.clone(),
            woke: self.woke.clone(),
            panics: self.panics.iter().map(|count| count()).sum(),
            lost: self.lost.clone(),
            cached: self.wire.cached(),
            watched: self.watched.clone(),
            pause: self.wire.pause(),
            checkpoint: self.cluster.checkpoint(),
        }
    }
}

impl Goal<'_> {
    fn reached(&self, store: &Store) -> bool {
        let found = State::of(&store.snapshot(), self.scope);
        state::differences(self.state, &found, self.masks).is_empty()
    }
}

/// Counts creations and deletions.
fn churn(events: &[Arc<Event>]) -> BTreeMap<ObjectName, (usize, usize)> {
    let mut churn: BTreeMap<ObjectName, (usize, usize)> = BTreeMap::new();
    for event in events {
        let Some(name) = of_key(&event.key) else { continue };
        let count = churn.entry(name).or_default();
        match (&event.old, &event.new) {
            (None, Some(_)) => count.0 += 1,
            (Some(_), None) => count.1 += 1,
            _ => {}
        }
    }
    churn
}
