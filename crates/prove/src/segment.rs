//! One run: a cluster from a checkpoint, the operator on it, and some steps of the life.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
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
use crate::settings::{Pace, Settings};
use crate::state::{self, Scope, State};
use crate::subject::{Start, Subject};
use crate::traffic::{Delivered, Sent};
use crate::wire::{Signal, Wire};

mod script;

/// The namespace of the nodes' Leases.
const NODE_LEASES: &str = "kube-node-lease";

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
    /// The watches that the operator had opened when it was at rest before the first step.
    pub watched: BTreeSet<String>,
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
    watched: BTreeSet<String>,
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
        watched: BTreeSet::new(),
        visited,
    };
    if !segment.asleep {
        world.free_leases().await;
        world.boot();
    }
    let fault = segment.plan.map(|plan| plan.at.clone());
    let before = world.store().snapshot();
    let settled = world.settle().await;
    if settled.is_err() {
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
        self.free_leases().await;
        self.boot();
        true
    }

    /// Lets a started operator look at what is there.
    async fn settle(&mut self) -> Result<(), Unrest> {
        let (wire, commits, settings) = (self.wire.clone(), self.commits.clone(), self.segment.settings);
        // Before its watches are known, only a long silence tells that a process has started.
        let known = !settings.pace.real || self.segment.ready.is_some() || self.segment.asleep;
        let patience = if known { settings.pace.settled } else { settings.patience };
        tokio::select! {
            biased;
            Some(ended) = self.program.join_next() => {
                self.exits.push(exit(ended));
                Ok(())
            }
            rested = rest(&wire, &commits, patience, settings, || false) => rested.map(drop),
        }
    }

    /// Releases the Leases of a process that was killed, as they would expire. In virtual time they do.
    async fn free_leases(&self) {
        if !self.segment.settings.pace.real {
            return;
        }
        let client = self.cluster.client();
        let all: Api<Lease> = Api::all(client.clone());
        let Ok(leases) = all.list(&Default::default()).await else { return };
        for lease in leases {
            let held =
                lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
            let (Some(namespace), Some(name)) = (&lease.metadata.namespace, &lease.metadata.name) else {
                continue;
            };
            if namespace == NODE_LEASES || held.is_empty() {
                continue;
            }
            let released = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
            // A lease that is not released costs its duration, and no more.
            let _ = leases.patch(name, &PatchParams::default(), &Patch::Merge(&released)).await;
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
        let strikes = fault.as_ref().is_some_and(|fault| *fault != Fault::Restart);
        let waits = strikes && self.segment.settings.pace.real;
        let struck = self.wire.clone();
        let reached = || (!waits || struck.struck()) && goal.is_some_and(|goal| goal.reached(&store));
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
                    tokio::time::sleep(settings.pace.again).await;
                    if self.exits.len() < 3 {
                        self.free_leases().await;
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
            watched: self.watched.clone(),
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
