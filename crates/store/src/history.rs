//! The recent past: every event above the floor, in order, shared by all watchers and by reads at old revisions.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::entry::Event;
use crate::options::Options;
use crate::snapshot::Snapshot;
use crate::{Millis, ReadError, Revision};

/// Old states that reads asked for, kept for their next page. The least recently used gives way.
const RECENT: usize = 4;
/// Time marks per `history_age`: the resolution of ages.
const MARKS: u32 = 16;

#[derive(Clone)]
pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    /// The number of events ever dropped, which is the sequence number of `events[0]`.
    dropped: u64,
    floor: Revision,
    bytes: usize,
    /// Most recently used last.
    recent: Vec<Snapshot>,
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
            recent: Vec::new(),
            marks: VecDeque::new(),
            options,
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
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
        self.dropped + self.events.len() as u64 - 1
    }

    /// Called after a revision's last event: raises the floor until history is within its bounds.
    pub(crate) fn end_revision(&mut self) {
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
        self.recent.retain(|snapshot| snapshot.revision() >= floor);
    }

    /// Raises the floor past events that are too old. `current` is the newest revision.
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

    /// The old state at `revision`, if it was asked for lately.
    pub(crate) fn recall(&mut self, revision: Revision) -> Option<Snapshot> {
        let at = self.recent.iter().position(|snapshot| snapshot.revision() == revision)?;
        let snapshot = self.recent.remove(at);
        self.recent.push(snapshot.clone());
        Some(snapshot)
    }

    /// Keeps an old state that was asked for.
    pub(crate) fn remember(&mut self, snapshot: Snapshot) {
        let revision = snapshot.revision();
        if revision < self.floor || self.recent.iter().any(|recent| recent.revision() == revision) {
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(snapshot);
    }
}
