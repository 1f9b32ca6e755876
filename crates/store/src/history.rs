//! The recent past: every event above the floor, in order, shared by all watchers and by reads at old revisions.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::entry::Event;
use crate::options::Options;
use crate::root::Root;
use crate::{Millis, ReadError, Revision};

/// A state is kept for every so many events, so that reading an old revision undoes at most that many.
const EVENTS_PER_KEPT_ROOT: usize = 16_384;
/// States that old reads asked for, kept for their next page. The least recently used gives way.
const RECENT_ROOTS: usize = 8;
/// Time marks per `history_age`: how finely age is told.
const MARKS: u32 = 16;

pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    /// How many events were dropped, ever: the sequence number of `events[0]`.
    dropped: u64,
    floor: Revision,
    bytes: usize,
    /// Ascending.
    kept: VecDeque<Root>,
    since_kept: usize,
    /// Most recently used last.
    recent: Vec<Root>,
    /// (time, the newest revision then), ascending.
    marks: VecDeque<(Millis, Revision)>,
    options: Options,
}

impl History {
    pub(crate) fn new(floor: Revision, options: Options) -> Self {
        History {
            events: VecDeque::new(),
            dropped: 0,
            floor,
            bytes: 0,
            kept: VecDeque::new(),
            since_kept: 0,
            recent: Vec::new(),
            marks: VecDeque::new(),
            options,
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    /// Sequence numbers of the events kept.
    pub(crate) fn sequences(&self) -> std::ops::Range<u64> {
        self.dropped..self.dropped + self.events.len() as u64
    }

    /// The event with this sequence number, which must be one of [`sequences`](Self::sequences).
    pub(crate) fn event(&self, sequence: u64) -> &Arc<Event> {
        &self.events[(sequence - self.dropped) as usize]
    }

    /// Adds an event and returns its sequence number.
    pub(crate) fn push(&mut self, event: Arc<Event>) -> u64 {
        self.bytes += event.kept_bytes();
        self.events.push_back(event);
        self.since_kept += 1;
        self.dropped + self.events.len() as u64 - 1
    }

    /// Called with the state after each revision's last event.
    pub(crate) fn end_revision(&mut self, root: &Root) {
        if self.since_kept >= EVENTS_PER_KEPT_ROOT {
            self.since_kept = 0;
            self.kept.push_back(root.clone());
        }
        while self.events.len() > self.options.history_events || self.bytes > self.options.history_bytes {
            let Some(oldest) = self.events.front() else { break };
            self.raise_floor(oldest.revision);
        }
    }

    /// Drops what only reads and watches below `floor` would need.
    pub(crate) fn raise_floor(&mut self, floor: Revision) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        // From the front, one by one: under load this happens with every commit, for one event.
        while self.events.front().is_some_and(|event| event.revision <= floor) {
            let event = self.events.pop_front().expect("looked at just now");
            self.bytes -= event.kept_bytes();
            self.dropped += 1;
        }
        let gone = self.kept.partition_point(|root| root.revision < floor);
        self.kept.drain(..gone);
        self.recent.retain(|root| root.revision >= floor);
    }

    /// Raises the floor past what has become too old; `current` is the newest revision.
    pub(crate) fn age(&mut self, now: Millis, current: Revision) {
        let age = Millis::try_from(self.options.history_age.as_millis()).unwrap_or(Millis::MAX);
        let old = self.marks.partition_point(|(time, _)| time.saturating_add(age) <= now);
        let reached = self.marks.drain(..old).next_back();
        if let Some((_, floor)) = reached {
            self.raise_floor(floor);
        }
        let spacing = age / Millis::from(MARKS);
        if self.marks.back().is_none_or(|(time, _)| time.saturating_add(spacing) <= now) {
            self.marks.push_back((now, current));
        }
    }

    pub(crate) fn check(&self, revision: Revision, current: Revision) -> Result<(), ReadError> {
        if revision < self.floor {
            Err(ReadError::Compacted { floor: self.floor })
        } else if revision > current {
            Err(ReadError::Future { current })
        } else {
            Ok(())
        }
    }

    /// The sequence number of the first event after `revision`.
    pub(crate) fn sequence_after(&self, revision: Revision) -> u64 {
        self.dropped + self.events.partition_point(|event| event.revision <= revision) as u64
    }

    /// Events after `revision`, newest first; `None` when some of them are gone.
    pub(crate) fn since(&self, revision: Revision) -> Option<impl Iterator<Item = &Arc<Event>>> {
        let newer = move |event: &&Arc<Event>| event.revision > revision;
        (revision >= self.floor).then(|| self.events.iter().rev().take_while(newer))
    }

    /// How to build the state at `revision`: a later state, and the events to undo from it, newest last.
    pub(crate) fn rewind(&mut self, revision: Revision, current: &Root) -> Rewind {
        if let Some(at) = self.recent.iter().position(|root| root.revision == revision) {
            let root = self.recent.remove(at);
            self.recent.push(root.clone());
            return Rewind { root, undo: Vec::new(), revision };
        }
        let later = self.kept.iter().chain(&self.recent).filter(|root| root.revision >= revision);
        let root = later.min_by_key(|root| root.revision).unwrap_or(current).clone();
        let first = self.events.partition_point(|event| event.revision <= revision);
        let last = self.events.partition_point(|event| event.revision <= root.revision);
        Rewind { undo: self.events.range(first..last).cloned().collect(), root, revision }
    }

    /// Keeps a state that was built for an old read.
    pub(crate) fn remember(&mut self, root: Root) {
        if root.revision < self.floor || self.recent.iter().any(|recent| recent.revision == root.revision) {
            return;
        }
        if self.recent.len() == RECENT_ROOTS {
            self.recent.remove(0);
        }
        self.recent.push(root);
    }
}

/// The recipe for an old state, to be followed without holding any lock.
pub(crate) struct Rewind {
    root: Root,
    undo: Vec<Arc<Event>>,
    revision: Revision,
}

impl Rewind {
    pub(crate) fn run(mut self) -> Root {
        for event in self.undo.iter().rev() {
            self.root.set(&event.key, event.old.clone());
        }
        self.root.revision = self.revision;
        self.root
    }
}
