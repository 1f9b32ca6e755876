//! A state of the store that never changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::Revision;
use crate::entry::{Entry, Event};
use crate::key::KeyRange;
use crate::past::{Past, Range};
use crate::root::Root;

/// The whole store as of one revision. Cheap to take, to clone and to keep; never changes.
#[derive(Clone)]
pub struct Snapshot {
    root: Root,
    /// For an old revision: how it differs from `root`.
    past: Option<Arc<Past>>,
    reads: Option<Arc<Mutex<Reads>>>,
}

/// The keys and ranges that a transaction's decision read, and therefore depends on.
#[derive(Default)]
pub(crate) struct Reads {
    keys: BTreeMap<Bytes, Option<Arc<Entry>>>,
    ranges: Vec<KeyRange>,
}

impl Snapshot {
    pub(crate) fn new(root: Root) -> Self {
        Snapshot { root, past: None, reads: None }
    }

    /// The state that `root` had before everything in `past`.
    pub(crate) fn old(root: Root, past: Past) -> Self {
        Snapshot { root, past: Some(Arc::new(past)), reads: None }
    }

    /// A snapshot that records its reads.
    pub(crate) fn recording(root: Root) -> Self {
        Snapshot { root, past: None, reads: Some(Arc::default()) }
    }

    pub(crate) fn into_reads(self) -> Reads {
        let Some(reads) = self.reads else { return Reads::default() };
        std::mem::take(&mut *reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, note: impl FnOnce(&mut Reads)) {
        if let Some(reads) = &self.reads {
            note(&mut reads.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The revision whose state this is.
    pub fn revision(&self) -> Revision {
        self.past.as_ref().map_or(self.root.revision, |past| past.revision)
    }

    /// Returns the entry of `key`.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let changed = self.past.as_ref().and_then(|past| past.get(key));
        let entry = changed.unwrap_or_else(|| self.root.get(key)).cloned();
        self.record(|reads| {
            let key = entry.as_ref().map_or_else(|| Bytes::copy_from_slice(key), |entry| entry.key.clone());
            reads.keys.insert(key, entry.clone());
        });
        entry
    }

    /// The entries of `range` in key order, starting at the first key that is not less than `from`.
    pub fn range(&self, range: &KeyRange, from: Option<&[u8]>) -> Range<'_> {
        self.record(|reads| reads.ranges.push(range.clone()));
        self.entries(range, from)
    }

    /// Returns the number of keys in `range`. Walks them, except for the whole store.
    pub fn count(&self, range: &KeyRange) -> usize {
        self.record(|reads| reads.ranges.push(range.clone()));
        match self.past {
            None if *range == KeyRange::all() => self.root.len(),
            _ => self.entries(range, None).count(),
        }
    }

    fn entries(&self, range: &KeyRange, from: Option<&[u8]>) -> Range<'_> {
        Range::new(self.root.range(range, from), self.past.as_deref(), range, from)
    }
}

impl Reads {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Returns the recorded entry of `key`, if the decision read it.
    pub(crate) fn found(&self, key: &[u8]) -> Option<&Option<Arc<Entry>>> {
        self.keys.get(key)
    }

    /// Whether `event` changed anything that the decision read.
    pub(crate) fn touched_by(&self, event: &Event) -> bool {
        self.keys.contains_key(&event.key) || self.ranges.iter().any(|range| range.contains(&event.key))
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision())
            .field("keys", &self.root.len())
            .finish()
    }
}
