//! One run: a cluster from a checkpoint, the operator on it, and some steps of the life.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use setpoint::clock::{Clock, Random};
use setpoint_cluster::{Checkpoint, Cluster, ClusterError};
use setpoint_store::{Event, Snapshot, Store};
use tokio::task::{JoinError, JoinSet};

use crate::bystander::Mark;
use crate::life::{Action, LifeError};
use crate::plan::{Fault, Plan};
use crate::resource::{ObjectName, of_key};
use crate::rest::{Commits, Unrest, rest};
use crate::service;
use crate::settings::Settings;
use crate::state::{self, Scope, State};
use crate::subject::{Start, Subject};
use crate::traffic::{Delivered, Sent};
use crate::wire::{Signal, Wire};

mod script;

/// Time that a started operator has to look at what is there before a step begins.
const SETTLED: Duration = Duration::from_secs(5);
/// Time between the two steps of [`Fault::Unseen`], and after the second.
const UNSEEN: Duration = Duration::from_secs(1);
/// Time after which a program that ended is started again.
const STARTED_AGAIN: Duration = Duration::from_secs(10);

/// The reason why a run could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The life is wrong.
    #[error(transparent)]
    Life(#[from] LifeError),
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
    /// Whether the fault struck.
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

/// Runs a future on a runtime of its own with virtual time.
pub fn simulate<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O takes no resources").block_on(future)
}

/// A running cluster with the operator.
struct World<'a> {
    segment: &'a Segment<'a>,
    cluster: Cluster,
    wire: Wire,
    commits: Commits,
    incarnation: u64,
    program: JoinSet<Result<(), String>>,
    panics: Vec<Box<dyn Fn() -> u64 + Send>>,
    exits: Vec<String>,
    woke: Vec<Sent>,
    /// A mark of somebody else that the operator removed.
    lost: Option<Mark>,
    /// The revision at the beginning of the step.
    began: u64,
    /// Seconds by which the operator's clock is wrong.
    skew: Arc<AtomicI64>,
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
    let cluster = segment.from.start().await?;
    let jitter = segment.jitter.map(Random::from_seed);
    let wire = Wire::new(cluster.store().clone(), jitter);
    if !segment.settings.watch_list {
        wire.lists_instead();
    }
    let commits = Commits::of(cluster.store());
    let mut world = World {
        segment,
        cluster,
        wire,
        commits,
        incarnation: 0,
        program: JoinSet::new(),
        panics: Vec::new(),
        exits: Vec::new(),
        woke: Vec::new(),
        lost: None,
        began: 0,
        skew: Arc::default(),
        visited,
    };
    if !segment.asleep {
        world.boot();
    }
    let fault = segment.plan.map(|plan| plan.at.clone());
    let before = world.store().snapshot();
    let settled = rest(&world.wire, &world.commits, SETTLED, segment.settings, || false).await;
    if settled.is_err() {
        let outcome = world.outcome(segment.first, before, settled.err());
        return Ok(Ran::Done(vec![outcome]));
    }
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

    /// Starts an incarnation of the operator.
    fn boot(&mut self) {
        let inner = match self.segment.subject.service_account() {
            None => self.cluster.client(),
            Some((namespace, name)) => {
                let user = format!("system:serviceaccount:{namespace}:{name}");
                let of_namespace = format!("system:serviceaccounts:{namespace}");
                self.cluster
                    .client_as(&user, &["system:serviceaccounts", &of_namespace, "system:authenticated"])
            }
        };
        self.incarnation += 1;
        let start = Start {
            client: service::client(&self.wire, inner, self.cluster.client()),
            clock: skewed(self.cluster.clock().clone(), self.skew.clone()),
            random: Random::from_seed(self.segment.settings.seed.wrapping_add(self.incarnation)),
        };
        let running = (self.segment.subject.start)(start);
        self.program.spawn(running.program);
        self.panics.push(running.panics);
    }

    /// Drops the operator where it is and starts it again. Returns `false` if an earlier run did so in this state.
    async fn restart(&mut self, step: usize) -> bool {
        self.program.shutdown().await;
        let hash = state::hash(&self.store().snapshot(), self.segment.from.store().revision());
        if !self.visited.insert((step, hash)) {
            return false;
        }
        self.boot();
        true
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
            tokio::time::sleep(UNSEEN).await;
            life[last].perform(self.cluster.client()).await?;
            tokio::time::sleep(UNSEEN).await;
            self.wire.release(resource);
        } else {
            self.begin(first, fault).await?;
        }
        if self.segment.asleep {
            life[last].perform(self.cluster.client()).await?;
            self.boot();
        }
        let ended = match fault {
            Some(Fault::StaleRestart { steps: 2, .. }) => Some(self.short_rest().await),
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
        let reached = || goal.is_some_and(|goal| goal.reached(&store));
        loop {
            let (wire, settings) = (self.wire.clone(), self.segment.settings);
            let commits = self.commits.clone();
            tokio::select! {
                biased;
                signal = wire.signal() => match (signal, fault) {
                    (Signal::Crash, Some(Fault::CrashTwice { then, .. })) if self.incarnation == 1 => {
                        self.program.shutdown().await;
                        self.boot();
                        self.wire.arm_again(Fault::CrashAfter { write: then.clone() });
                    }
                    (Signal::Crash, _) if !self.restart(first).await => return Ok(None),
                    (Signal::Crash, _) => {}
                    (Signal::NextStep, _) => life[last].perform(self.cluster.client()).await?,
                },
                Some(ended) = self.program.join_next() => {
                    self.exits.push(exit(ended));
                    // As a Deployment would.
                    tokio::time::sleep(STARTED_AGAIN).await;
                    if self.exits.len() < 3 {
                        self.boot();
                    }
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
            struck: self.wire.struck(),
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

/// Returns a clock that is wrong by some seconds.
fn skewed(clock: Clock, skew: Arc<AtomicI64>) -> Clock {
    Clock::new(move || {
        let seconds = skew.load(Ordering::Relaxed);
        let by = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { clock.now() - by } else { clock.now() + by }
    })
}

fn exit(ended: Result<Result<(), String>, JoinError>) -> String {
    match ended {
        Ok(Ok(())) => "it returned".to_owned(),
        Ok(Err(error)) => error,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => format!("panic: {}", message(&panic)),
            Err(error) => error.to_string(),
        },
    }
}

fn message(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
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
