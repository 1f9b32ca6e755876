//! The processes of the operator on a wire. Usually there is one. Replicas that compete for a Lease are several.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::{State, Wire};
use crate::subject::Activity;

/// One process.
pub(super) struct Process {
    /// The name under which it competes for the Lease, if it does.
    pub(super) identity: Option<String>,
    in_flight: usize,
    /// Watches whose client does not read on.
    unread: usize,
    /// Whether it is about to die: nothing that it sends counts any more.
    dying: bool,
    /// The resources that it watches.
    pub(super) watched: BTreeSet<String>,
    /// The last request or event.
    pub(super) last_seen: Option<Instant>,
    pub(super) booted: Instant,
    /// The end of the time in which no request and no answer passes.
    pub(super) cut_off: Option<Instant>,
    pub(super) blind: Option<Blind>,
    /// The activity of a process of its own.
    pub(super) activity: Option<Arc<dyn Activity>>,
}

/// A time in which the open watches of a process show nothing.
#[derive(Clone, Copy)]
pub(super) struct Blind {
    /// Watches that begin later are not affected.
    pub(super) since: Instant,
    /// The end, once it is known.
    pub(super) until: Option<Instant>,
}

impl Process {
    fn new(identity: Option<String>) -> Process {
        Process {
            identity,
            in_flight: 0,
            unread: 0,
            dying: false,
            watched: BTreeSet::new(),
            last_seen: None,
            booted: Instant::now(),
            cut_off: None,
            blind: None,
            activity: None,
        }
    }

    /// Returns whether all requests are answered, all events are read, and nothing is withheld.
    pub(super) fn is_quiet(&self) -> bool {
        let now = Instant::now();
        let withheld = self.blind.is_some_and(|blind| blind.until.is_none_or(|until| until > now));
        let cut_off = self.cut_off.is_some_and(|until| until > now);
        self.in_flight == 0 && self.unread == 0 && !withheld && !cut_off
    }
}

impl State {
    /// Notes a request or event of a process.
    pub(super) fn seen(&mut self, incarnation: u32) {
        if let Some(process) = self.processes.get_mut(&incarnation) {
            process.last_seen = Some(Instant::now());
        }
    }

    /// Notes a watch. Returns whether it is the first of its resource.
    pub(super) fn opens(&mut self, incarnation: u32, resource: &str) -> bool {
        let process = self.processes.get_mut(&incarnation);
        process.is_some_and(|process| process.watched.insert(resource.to_owned()))
    }

    /// Lets nothing of a process count any more.
    pub(super) fn dies(&mut self, incarnation: u32) {
        if let Some(process) = self.processes.get_mut(&incarnation) {
            process.dying = true;
        }
    }
}

/// Counts a request as in flight until it is dropped.
pub struct Flight(Wire, u32);

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(process) = self.0.state().processes.get_mut(&self.1) {
            process.in_flight = process.in_flight.saturating_sub(1);
        }
    }
}

impl Wire {
    /// Begins the next process of the operator. Returns its number.
    pub fn begin_process(&self, identity: Option<String>) -> u32 {
        let mut state = self.state();
        state.incarnation += 1;
        // A process that has just started is not at rest.
        state.last_work = Instant::now();
        let incarnation = state.incarnation;
        state.processes.insert(incarnation, Process::new(identity));
        incarnation
    }

    /// Ends a process. What it still sends gets no answer any more.
    pub fn end_process(&self, incarnation: u32) {
        self.state().processes.remove(&incarnation);
    }

    /// Ends all processes.
    pub fn end_processes(&self) {
        self.state().processes.clear();
    }

    /// Counts a request as in flight until the answer is dropped.
    pub fn take_off(&self, incarnation: u32) -> Flight {
        if let Some(process) = self.state().processes.get_mut(&incarnation) {
            process.in_flight += 1;
        }
        Flight(self.clone(), incarnation)
    }

    /// Waits for ever if the process that sent a request is dead or dies.
    pub async fn alive(&self, incarnation: u32) {
        if !self.runs(incarnation) {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether a process still runs.
    pub fn runs(&self, incarnation: u32) -> bool {
        self.state().processes.get(&incarnation).is_some_and(|process| !process.dying)
    }

    /// Counts watches whose last event was handed over and whose client has not asked for more.
    pub fn unread(&self, incarnation: u32, unread: bool) {
        if let Some(process) = self.state().processes.get_mut(&incarnation) {
            process.unread = if unread { process.unread + 1 } else { process.unread.saturating_sub(1) };
        }
    }

    /// Returns the resources that the youngest process watches.
    pub fn watched(&self) -> BTreeSet<String> {
        let state = self.state();
        state.processes.last_key_value().map(|(_, process)| process.watched.clone()).unwrap_or_default()
    }

    /// Returns the time of the last request or event of the youngest process.
    pub fn last_seen(&self) -> Option<Instant> {
        self.state().processes.last_key_value().and_then(|(_, process)| process.last_seen)
    }
}
