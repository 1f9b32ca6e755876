//! The events that one handler has not got yet: in order, bounded, with the last state never lost.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use crate::informer::cache::Event;
use crate::key::Key;

/// Room for events that an empty mailbox keeps; that of a first state is given back.
const KEPT_ROOM: usize = 1024;

/// Events that wait for a handler before they are merged, when it does not choose its own bound.
pub const DEFAULT_MAILBOX_CAPACITY: usize = 16 * 1024;

/// Events that wait for one handler.
///
/// Up to `capacity` each event is kept. Beyond it, events of one object are merged: the handler is told of the
/// newest state and skips those between, but never across a uid, so that the deletion of an object comes before
/// the addition of its successor. An object that came and went meanwhile is not told of at all. So the queue holds
/// at most `capacity` events and two for each key.
pub(super) struct Mailbox {
    /// `None` where an event was merged away.
    events: VecDeque<Option<Event>>,
    /// Number of the front event; numbers never change while an event waits.
    front: u64,
    live: usize,
    capacity: usize,
    /// While over capacity: the newest waiting event of each key. Looked up only; its order never shows.
    newest: Option<HashMap<Key, u64, BuildHasherDefault<DefaultHasher>>>,
    /// Initial additions that wait.
    pub initial: usize,
    /// Events that were merged away since the beginning.
    pub merged: u64,
}

/// How a handler wants to be told.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SubscribeOptions {
    /// Deliver every cached object again after this time, from the cache, without asking the server. At least one
    /// second. What waits by then is delivered first; what comes later takes turns with it, so that a handler that is
    /// always behind gets there too.
    pub resync: Option<Duration>,
    /// Events that may wait before they are merged by object.
    pub capacity: usize,
}

impl SubscribeOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        SubscribeOptions { resync: None, capacity: DEFAULT_MAILBOX_CAPACITY }
    }
}

/// The fate of a waiting event when the next one of its object comes.
enum Merge {
    Into(Event),
    Vanish,
    Apart,
}

impl Mailbox {
    pub fn new(capacity: usize) -> Self {
        Mailbox {
            events: VecDeque::new(),
            front: 0,
            live: 0,
            capacity: capacity.max(1),
            newest: None,
            initial: 0,
            merged: 0,
        }
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.live
    }

    /// The number that the next event will have. Events that wait now have smaller ones, until they are taken.
    pub fn end(&self) -> u64 {
        self.front + self.events.len() as u64
    }

    /// Whether every event was taken that waited when the [end](Mailbox::end) was there.
    pub fn is_past(&self, end: u64) -> bool {
        self.front >= end || self.live == 0
    }

    /// Places taken in memory, gaps included.
    #[cfg(test)]
    pub fn slots(&self) -> usize {
        self.events.len()
    }

    pub fn push(&mut self, event: Event) {
        if self.newest.is_none() && self.live >= self.capacity {
            self.begin_merging();
        }
        let slot = self.newest.as_ref().and_then(|newest| newest.get(event.key()).copied());
        let Some(slot) = slot else { return self.append(event) };
        let index = usize::try_from(slot - self.front).expect("a waiting event lies within the queue");
        let waiting = self.events[index].as_ref().expect("the newest event of a key waits");
        match merge(waiting, &event) {
            Merge::Apart => self.append(event),
            Merge::Into(merged) => {
                self.events[index] = Some(merged);
                self.merged += 1;
            }
            Merge::Vanish => {
                self.initial -= usize::from(is_initial(waiting));
                self.events[index] = None;
                self.live -= 1;
                self.merged += 2;
                if let Some(newest) = &mut self.newest {
                    newest.remove(event.key());
                }
                self.compact();
            }
        }
    }

    pub fn pop(&mut self) -> Option<Event> {
        loop {
            let number = self.front;
            let event = self.events.pop_front()?;
            self.front += 1;
            let Some(event) = event else { continue };
            self.live -= 1;
            self.initial -= usize::from(is_initial(&event));
            if let Some(newest) = &mut self.newest
                && newest.get(event.key()) == Some(&number)
            {
                newest.remove(event.key());
            }
            if self.live < self.capacity / 2 {
                self.newest = None;
            }
            if self.events.is_empty() && self.events.capacity() > KEPT_ROOM {
                self.events = VecDeque::new();
            }
            return Some(event);
        }
    }

    fn append(&mut self, event: Event) {
        self.live += 1;
        self.initial += usize::from(is_initial(&event));
        if let Some(newest) = &mut self.newest {
            newest.insert(event.key().clone(), self.front + self.events.len() as u64);
        }
        self.events.push_back(Some(event));
    }

    fn begin_merging(&mut self) {
        let numbered = self.events.iter().zip(self.front..);
        let newest =
            numbered.filter_map(|(event, number)| event.as_ref().map(|event| (event.key().clone(), number)));
        self.newest = Some(newest.collect());
    }

    /// Closes the gaps once they outnumber the events, so that a stalled handler costs no memory for objects that
    /// come and go.
    fn compact(&mut self) {
        if self.events.len() > 2 * self.live + self.capacity {
            self.events.retain(Option::is_some);
            self.begin_merging();
        }
    }
}

fn merge(waiting: &Event, next: &Event) -> Merge {
    if waiting.object().uid() != next.object().uid() {
        return Merge::Apart;
    }
    match (waiting, next) {
        (Event::Add { is_initial, .. }, Event::Update { new: object, .. } | Event::Add { object, .. }) => {
            Merge::Into(Event::Add { object: object.clone(), is_initial: *is_initial })
        }
        (Event::Add { .. }, Event::Delete { .. }) => Merge::Vanish,
        (Event::Update { old, .. }, Event::Update { new, .. }) => {
            Merge::Into(Event::Update { old: old.clone(), new: new.clone() })
        }
        (Event::Update { .. }, Event::Delete { .. }) => Merge::Into(next.clone()),
        (Event::Delete { .. }, _) | (Event::Update { .. }, Event::Add { .. }) => Merge::Apart,
    }
}

fn is_initial(event: &Event) -> bool {
    matches!(event, Event::Add { is_initial: true, .. })
}
