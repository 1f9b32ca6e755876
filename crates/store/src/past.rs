//! Old states: the newest state, except for the keys that changed since.

use std::sync::Arc;

use crate::Revision;
use crate::entry::{Entry, Event};
use crate::key::KeyRange;
use crate::root;

/// The entries at an old revision of all keys that changed since.
pub(crate) struct Past {
    pub(crate) revision: Revision,
    /// The first change of each key after the revision, in key order. The value that it replaced is the old value.
    changes: Vec<Arc<Event>>,
}

impl Past {
    /// `changes` are all events after `revision` up to the state that it is laid over, in order.
    pub(crate) fn new(revision: Revision, mut changes: Vec<Arc<Event>>) -> Self {
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes.dedup_by(|later, first| later.key == first.key);
        Past { revision, changes }
    }

    /// Returns the old entry of `key` if it changed since.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<&Arc<Entry>>> {
        let at = self.changes.binary_search_by(|event| event.key.as_ref().cmp(key)).ok()?;
        Some(self.changes[at].old.as_ref())
    }

    fn range(&self, range: &KeyRange, from: Option<&[u8]>) -> &[Arc<Event>] {
        let Some((start, _)) = range.bounds(from) else { return &[] };
        let before = |event: &Arc<Event>| match &start {
            std::ops::Bound::Included(start) => event.key < *start,
            _ => false,
        };
        let later = &self.changes[self.changes.partition_point(before)..];
        &later[..later.partition_point(|event| range.contains(&event.key))]
    }
}

/// Entries of a range in key order.
pub struct Range<'a> {
    now: root::Range<'a>,
    /// The next of `now`, if it has been looked at.
    peeked: Option<&'a Arc<Entry>>,
    past: &'a [Arc<Event>],
}

impl<'a> Range<'a> {
    pub(crate) fn new(
        now: root::Range<'a>,
        past: Option<&'a Past>,
        range: &KeyRange,
        from: Option<&[u8]>,
    ) -> Self {
        Range { now, peeked: None, past: past.map_or(&[], |past| past.range(range, from)) }
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let now = self.peeked.take().or_else(|| self.now.next());
            let Some((changed, rest)) = self.past.split_first() else { return now };
            match now {
                Some(entry) if entry.key < changed.key => return now,
                // The key changed since: its change supplies the old entry.
                Some(entry) if entry.key == changed.key => {}
                later => self.peeked = later,
            }
            self.past = rest;
            if let Some(old) = &changed.old {
                return Some(old);
            }
        }
    }
}
