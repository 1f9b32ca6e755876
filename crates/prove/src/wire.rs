//! The state of the wire between the operator and the server: the record, the faults, the holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use setpoint::clock::Random;
use setpoint_store::{Event, KeyRange, Store};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bystander::Mark;
use crate::plan::{Anchor, Fault};
use crate::resource::of_key;
use crate::settings::Pace;
use crate::traffic::{Call, Delivered, Sent};
use crate::webhooks::Webhooks;

mod leader;
mod server;
mod watches;
mod process;

use leader::Lease;
use process::Process;

/// The longest delay of a message in a run with benign delays.
const JITTER_MILLIS: u64 = 40;
/// Writes after which a held watch goes on before its time. An operator that cannot see the owner's end makes a child
/// again each time the garbage collector deletes it: that is no defect, and would go on until the hold ends.
const HELD_WRITES: usize = 50;
/// Time that a restarting server takes.
const DOWN: Duration = Duration::from_secs(1);

/// A request of the run: do something to the operator or the life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The process dies.
    Crash(u32),
    /// The process is told to stop: another one takes its place.
    Replace(u32),
    /// The next step comes now.
    NextStep,
}

/// A stop of all watches of one resource.
struct Hold {
    /// The end. `None`: until [`Wire::release`] or [`Wire::let_go`].
    until: Option<Instant>,
    /// Writes since the beginning.
    writes: usize,
    /// Whether the watches then end with 410.
    forgets: bool,
}

/// The age of the server, as far as first states depend on it.
#[derive(Default)]
struct Age {
    /// The server does not stream first states.
    lists_only: bool,
    /// Lists with version 0 show this revision.
    view: Option<u64>,
    /// Resources whose first state the operator takes from a cache of the server.
    cached: BTreeSet<String>,
}

struct State {
    began: Instant,
    fault: Option<Fault>,
    struck: bool,
    signal: Option<Signal>,
    /// The number of processes so far.
    incarnation: u32,
    /// The processes that run, by number.
    processes: BTreeMap<u32, Process>,
    /// The Lease for which the processes compete, if they do.
    lease: Option<Lease>,
    last_work: Instant,
    sent: Vec<Sent>,
    delivered: Vec<Delivered>,
    writes: BTreeMap<(String, String, String), usize>,
    events: BTreeMap<String, usize>,
    held: BTreeMap<String, Hold>,
    /// Watches of these resources that began before this moment end with 410.
    expired: BTreeMap<String, Instant>,
    /// The moment at which the server began to restart.
    restarted: Option<Instant>,
    age: Age,
    /// An object that a finalizer of somebody else keeps.
    kept: Option<String>,
    /// A mark of somebody else that a write removed.
    lost: Option<Mark>,
    jitter: Option<Random>,
    pace: Pace,
    /// Watches by which a started operator is known to be ready. Only in real time.
    expected: BTreeSet<String>,
    /// Whether the next step of the life is asked for and not done yet.
    stepping: bool,
    /// The open watches, by number.
    open: BTreeMap<usize, watches::Open>,
    /// The longest time that the operator waited before it wrote by itself.
    pause: Duration,
}

impl State {
    /// Returns whether the operator has started. In virtual time it has, once nothing can run.
    fn is_ready(&self) -> bool {
        let Some((_, process)) = self.processes.last_key_value() else { return true };
        let begun = || process.last_seen.is_some() && self.expected.is_subset(&process.watched);
        !self.pace.real || begun() || process.booted.elapsed() > self.pace.start
    }

    /// Ends holds during which the operator wrote too often.
    fn count_while_held(&mut self) {
        for hold in self.held.values_mut() {
            hold.writes += 1;
        }
        let ends = |hold: &Hold| hold.until.is_some() && hold.writes >= HELD_WRITES;
        let ending = self.held.iter().filter(|(_, hold)| ends(hold));
        let ending: Vec<String> = ending.map(|(resource, _)| resource.clone()).collect();
        ending.iter().for_each(|resource| self.end_hold(resource));
    }

    fn end_hold(&mut self, resource: &str) {
        let Some(hold) = self.held.remove(resource) else { return };
        self.last_work = Instant::now();
        if hold.forgets {
            self.expired.insert(resource.to_owned(), Instant::now());
        }
    }
}

/// The wire of one run. Clones are handles to the same one.
#[derive(Clone)]
pub struct Wire {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    ended: Arc<Notify>,
    store: Store,
    webhooks: Option<Webhooks>,
}

impl Wire {
    /// A wire without faults. With `jitter`, messages are late by random times.
    pub fn new(store: Store, jitter: Option<Random>, pace: Pace, expected: BTreeSet<String>) -> Wire {
        let now = Instant::now();
        let state = State {
            began: now,
            fault: None,
            struck: false,
            signal: None,
            incarnation: 0,
            processes: BTreeMap::new(),
            lease: None,
            last_work: now,
            sent: Vec::new(),
            delivered: Vec::new(),
            writes: BTreeMap::new(),
            events: BTreeMap::new(),
            held: BTreeMap::new(),
            expired: BTreeMap::new(),
            restarted: None,
            age: Age::default(),
            kept: None,
            lost: None,
            jitter,
            pace,
            expected,
            stepping: false,
            open: BTreeMap::new(),
            pause: Duration::ZERO,
        };
        let (changed, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        Wire { state: Arc::new(Mutex::new(state)), changed, ended, store, webhooks: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a step: counts start over, and `fault` may strike.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut state = self.state();
        state.began = Instant::now();
        state.last_work = state.began;
        state.fault = fault;
        state.struck = false;
        state.signal = None;
        state.sent.clear();
        state.delivered.clear();
        state.writes.clear();
        state.events.clear();
        state.pause = Duration::ZERO;
        state.stepping = false;
        drop(state);
        self.look_at_lease(true);
    }

    /// Stops all watches of a resource until [`Wire::release`] or [`Wire::let_go`].
    pub fn hold(&self, resource: &str) {
        let mut state = self.state();
        state.struck = true;
        state.held.insert(resource.to_owned(), Hold { until: None, writes: 0, forgets: false });
    }

    /// Ends a hold. The watches that were held end with 410.
    pub fn release(&self, resource: &str) {
        self.state().expired.insert(resource.to_owned(), Instant::now());
        self.let_go(resource);
    }

    /// Ends a hold. The watches that were held go on.
    pub fn let_go(&self, resource: &str) {
        self.state().end_hold(resource);
        self.changed.notify_waiters();
    }

    /// Says that the fault has struck.
    pub fn strike(&self) {
        self.state().struck = true;
    }

    /// Arms a second fault. The counts of writes start over.
    pub fn arm_again(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        state.struck = false;
        state.writes.clear();
    }

    /// Returns whether the fault has struck.
    pub fn struck(&self) -> bool {
        self.state().struck
    }

    /// Waits for a signal.
    pub async fn signal(&self) -> Signal {
        loop {
            let changed = self.changed.notified();
            if let Some(signal) = self.state().signal.take() {
                return signal;
            }
            changed.await;
        }
    }

    /// Returns when the operator last wrote, and whether all its requests are answered, no watch is held, and all
    /// events are read.
    pub fn quiet(&self) -> (Instant, bool) {
        let state = self.state();
        let idle = state.held.is_empty() && state.processes.values().all(Process::is_quiet);
        (state.last_work, idle && state.is_ready())
    }

    /// Returns the number of writes in this step.
    pub fn writes(&self) -> usize {
        self.state().writes.values().sum()
    }

    /// Returns the record of this step.
    pub fn record(&self) -> (Vec<Sent>, Vec<Delivered>) {
        let state = self.state();
        (state.sent.clone(), state.delivered.clone())
    }

    /// Waits for a benign delay, in runs that have some.
    pub async fn delay(&self) {
        let delay = self.state().jitter.as_ref().map(|random| random.below(JITTER_MILLIS));
        if let Some(millis) = delay {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Waits until the watches of a resource may go on.
    pub async fn released(&self, resource: &str) {
        loop {
            let changed = self.changed.notified();
            let until = match self.state().held.get(resource) {
                None => return,
                Some(hold) => hold.until,
            };
            match until {
                None => changed.await,
                Some(until) => {
                    tokio::select! {
                        biased;
                        () = changed => continue,
                        () = tokio::time::sleep_until(until) => {}
                    }
                    self.state().end_hold(resource);
                }
            }
        }
    }

    /// Returns whether watches of a resource that began at `began` have expired.
    pub fn expired(&self, resource: &str, began: Instant) -> bool {
        self.state().expired.get(resource).is_some_and(|moment| began < *moment)
    }

    /// Counts an event that is about to be delivered. Returns whether the watch ends before it.
    pub fn about_to_deliver(&self, resource: &str) -> bool {
        let mut state = self.state();
        let count = state.events.entry(resource.to_owned()).or_default();
        *count += 1;
        let count = *count;
        if state.struck {
            return false;
        }
        match state.fault.clone() {
            Some(Fault::Hold { resource: held, event, seconds }) if held == resource && event == count => {
                state.struck = true;
                let until = Some(Instant::now() + Duration::from_secs(seconds));
                state.held.insert(held, Hold { until, writes: 0, forgets: false });
                false
            }
            Some(Fault::Gap { resource: held, event, seconds }) if held == resource && event == count => {
                state.struck = true;
                let until = Some(Instant::now() + Duration::from_secs(seconds));
                state.held.insert(held, Hold { until, writes: 0, forgets: true });
                false
            }
            Some(Fault::Cut { resource: cut, event }) if cut == resource && event == count => {
                state.struck = true;
                true
            }
            _ => false,
        }
    }

    /// Writes down a delivered event.
    pub fn deliver(&self, incarnation: u32, mut delivered: Delivered) {
        let mut state = self.state();
        delivered.at = state.began.elapsed();
        delivered.incarnation = incarnation;
        state.seen(incarnation);
        state.delivered.push(delivered);
    }

    /// Waits for the time that a request takes.
    pub async fn travel(&self) {
        let latency = self.state().pace.latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
    }

    /// Writes a request down. Returns its place in the record, and the fault that happens to it.
    pub fn note(&self, incarnation: u32, call: &Call, body: Bytes) -> (usize, Option<Fault>) {
        let rival = self.rival(incarnation);
        let mut state = self.state();
        state.seen(incarnation);
        if call.watch && state.opens(incarnation, &call.object.resource) && state.pace.real {
            // The patience begins when the operator sees everything.
            state.last_work = Instant::now();
        }
        let work = call.is_work();
        let nth = if work {
            let key = (call.verb.clone(), call.target(), call.object.name.clone());
            let count = state.writes.entry(key).or_default();
            *count += 1;
            let count = *count;
            state.last_work = Instant::now();
            state.count_while_held();
            count
        } else {
            0
        };
        let anchor =
            Anchor { verb: call.verb.clone(), resource: call.target(), name: call.object.name.clone(), nth };
        let strikes = work && !state.struck && state.fault.as_ref().and_then(Fault::write) == Some(&anchor);
        let fault = if strikes { state.fault.clone() } else { None };
        state.struck |= strikes;
        let sent = Sent {
            at: state.began.elapsed(),
            incarnation,
            call: call.clone(),
            body: if work { body } else { Bytes::new() },
            nth,
            status: None,
            before: self.store.revision(),
            revision: None,
            fault: fault.as_ref().map(|fault| fault.kind().to_owned()),
            rival: rival.filter(|_| work),
        };
        state.sent.push(sent);
        let place = state.sent.len() - 1;
        drop(state);
        if work {
            self.changed.notify_waiters();
        }
        (place, fault)
    }

    /// Writes an answer down.
    pub fn answered(&self, place: usize, status: u16) {
        let mut state = self.state();
        let now = Instant::now();
        // The record begins anew with each step.
        let Some(sent) = state.sent.get_mut(place) else { return };
        sent.status = Some(status);
        let (incarnation, work) = (sent.incarnation, sent.call.is_work());
        let elects = sent.call.is_election();
        if work {
            sent.revision = change(&self.store, &sent.call, sent.before);
            state.last_work = now;
        }
        state.seen(incarnation);
        drop(state);
        if elects {
            self.look_at_lease(false);
        }
    }

    /// Gives a signal to the run.
    pub fn give(&self, signal: Signal) {
        let mut state = self.state();
        state.signal = Some(signal);
        if let Signal::Crash(incarnation) = signal {
            state.dies(incarnation);
        }
        // A process would send its next request before the step is done. In virtual time it cannot.
        state.stepping = signal == Signal::NextStep && state.pace.real;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Says that the next step of the life is done.
    pub fn next_step_done(&self) {
        self.state().stepping = false;
        self.changed.notify_waiters();
    }

    /// Waits until the next step of the life is done, if the operator is a process.
    pub async fn next_step_is_done(&self) {
        loop {
            let changed = self.changed.notified();
            if !self.state().stepping {
                return;
            }
            changed.await;
        }
    }
}

/// Returns the first revision after `before` that changed the object of a call.
fn change(store: &Store, call: &Call, before: u64) -> Option<u64> {
    let mut watch = store.watch(KeyRange::all(), before).ok()?;
    while let Ok(Some(batch)) = watch.try_next() {
        let of_call = |event: &Arc<Event>| of_key(&event.key).is_some_and(|name| call.is_about(&name));
        if let Some(event) = batch.events.iter().find(|event| of_call(event)) {
            return Some(event.revision);
        }
    }
    None
}
