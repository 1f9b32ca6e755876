//! A watcher: a cursor into the shared history.

use std::ops::Range;
use std::sync::Arc;

use crate::Revision;
use crate::bell::Bell;
use crate::entry::Event;
use crate::error::WatchError;
use crate::group::GroupId;
use crate::key::KeyRange;
use crate::shared::Shared;
use crate::state::State;

/// Maximum number of events in one [`Batch`]. A revision is never split, so its last events may exceed the maximum.
pub const BATCH_EVENTS: usize = 256;
/// Maximum number of events that a watcher with a start in the past walks over while it holds the store's lock.
const SCAN_EVENTS: u64 = 4096;

/// The events of a range, in order, each exactly once. Any number of waiting events costs the same: they are in the
/// history, which all watchers share. A watcher that is too slow for the history's bounds is closed with
/// [`WatchError::Compacted`]. A watcher with no waiting events is never closed.
pub struct Watch {
    shared: Arc<Shared>,
    bell: Arc<Bell>,
    cursor: Cursor,
}

/// The position of a watcher.
pub(crate) struct Cursor {
    group: GroupId,
    /// Events between the requested revision and the start of the watch that were not walked over yet.
    past: Range<u64>,
    /// Number of the group's matches that were delivered, or came before this watch began.
    position: u64,
    /// All events up to this revision were delivered.
    revision: Revision,
}

enum Step {
    Events(Batch),
    Nothing,
    NothingSoFar,
}

/// Events, and the revision up to which they are complete.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In order. Contains whole revisions only.
    pub events: Vec<Arc<Event>>,
    /// All events of the range up to this revision are now delivered.
    pub revision: Revision,
}

impl Watch {
    pub(crate) fn new(shared: Arc<Shared>, bell: Arc<Bell>, cursor: Cursor) -> Self {
        Watch { shared, bell, cursor }
    }

    /// Waits for the next events. Dropping the future loses none.
    pub async fn next(&mut self) -> Result<Batch, WatchError> {
        let (bell, woken) = (self.bell.clone(), self.shared.woken.clone());
        let mut wait = None;
        loop {
            // Created before the check, so that a change in between is not missed.
            let changed = bell.notify.notified();
            let found = self.try_next()?;
            // The watcher has looked.
            drop(wait.take());
            if let Some(batch) = found {
                return Ok(batch);
            }
            wait = Some(Bell::wait(&bell, &woken));
            changed.await;
        }
    }

    /// Returns the next events, if there are any now.
    pub fn try_next(&mut self) -> Result<Option<Batch>, WatchError> {
        loop {
            let step = self.shared.state().read_on(&mut self.cursor)?;
            match step {
                Step::Events(batch) => return Ok(Some(batch)),
                Step::Nothing => return Ok(None),
                // The lock was released in between, so that others have their turn.
                Step::NothingSoFar => {}
            }
        }
    }

    /// Returns the revision up to which everything was delivered. With no waiting events, this is the newest
    /// revision.
    pub fn progress(&self) -> Revision {
        self.shared.state().progress(&self.cursor)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.state().groups.leave(self.cursor.group);
    }
}

impl State {
    pub(crate) fn start_watch(&mut self, range: &KeyRange, after: Revision) -> (Cursor, Arc<Bell>) {
        let group = self.groups.join(range);
        let end = self.history.sequences().end;
        let past = self.history.sequence_after(after)..end;
        let joined = self.groups.get_mut(group);
        let cursor = Cursor { group, past, position: joined.end(), revision: after };
        (cursor, joined.bell.clone())
    }

    fn read_on(&mut self, cursor: &mut Cursor) -> Result<Step, WatchError> {
        if self.closed {
            return Err(WatchError::Closed);
        }
        if !cursor.past.is_empty() {
            let events = self.read_past(cursor)?;
            let revision = cursor.revision;
            return Ok(if events.is_empty() {
                Step::NothingSoFar
            } else {
                Step::Events(Batch { events, revision })
            });
        }
        let current = self.visible.revision;
        let group = self.groups.get_mut(cursor.group);
        let end = group.end();
        let Some(matches) = group.matches_from(cursor.position, &self.history) else {
            return Err(WatchError::Compacted { floor: self.history.floor() });
        };
        let mut events: Vec<Arc<Event>> = Vec::new();
        for sequence in matches {
            let event = self.history.event(sequence);
            if events.len() >= BATCH_EVENTS
                && events.last().is_some_and(|last| last.revision != event.revision)
            {
                break;
            }
            events.push(event.clone());
        }
        cursor.position += events.len() as u64;
        cursor.revision = match events.last() {
            Some(last) if cursor.position < end => last.revision,
            _ => current,
        };
        let revision = cursor.revision;
        Ok(if events.is_empty() { Step::Nothing } else { Step::Events(Batch { events, revision }) })
    }

    /// Walks over a part of the events from before the watch began.
    fn read_past(&mut self, cursor: &mut Cursor) -> Result<Vec<Arc<Event>>, WatchError> {
        if cursor.past.start < self.history.sequences().start {
            return Err(WatchError::Compacted { floor: self.history.floor() });
        }
        let range = &self.groups.get_mut(cursor.group).range;
        let mut events = Vec::new();
        let mut walked = 0;
        while !cursor.past.is_empty() {
            let event = self.history.event(cursor.past.start);
            let full = walked >= SCAN_EVENTS || events.len() >= BATCH_EVENTS;
            if full && event.revision != cursor.revision {
                break;
            }
            if range.contains(&event.key) {
                events.push(event.clone());
            }
            cursor.revision = event.revision;
            cursor.past.start += 1;
            walked += 1;
        }
        Ok(events)
    }

    fn progress(&mut self, cursor: &Cursor) -> Revision {
        let current = self.visible.revision;
        let drained = cursor.past.is_empty() && self.groups.get_mut(cursor.group).end() == cursor.position;
        if drained { current } else { cursor.revision }
    }
}
