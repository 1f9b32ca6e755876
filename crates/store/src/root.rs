//! The index: every key with its newest entry, as of one revision. Cloning shares.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet};

use crate::entry::Entry;
use crate::key::KeyRange;
use crate::{Millis, Revision};

#[derive(Clone)]
pub(crate) struct Root {
    pub(crate) revision: Revision,
    entries: OrdMap<Bytes, Arc<Entry>>,
    expiries: OrdSet<(Millis, Bytes)>,
    /// Key and value bytes of all entries: the size of a checkpoint, roughly.
    bytes: u64,
}

impl Root {
    pub(crate) fn empty(revision: Revision) -> Self {
        Root { revision, entries: OrdMap::new(), expiries: OrdSet::new(), bytes: 0 }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn range(&self, range: &KeyRange, from: Option<&[u8]>) -> Range<'_> {
        Range(range.bounds(from).map(|bounds| self.entries.range::<_, Bytes>(bounds)))
    }

    /// Puts `new` in the place of what `key` has, and returns that.
    pub(crate) fn set(&mut self, key: &Bytes, new: Option<Arc<Entry>>) -> Option<Arc<Entry>> {
        let size = |entry: &Arc<Entry>| (entry.key.len() + entry.value.len()) as u64;
        let added = new.as_ref().map_or(0, size);
        let expiry = new.as_ref().and_then(|entry| entry.expires_at);
        let old = match new {
            Some(entry) => self.entries.insert(key.clone(), entry),
            None => self.entries.remove(key),
        };
        if let Some(at) = old.as_ref().and_then(|entry| entry.expires_at) {
            self.expiries.remove(&(at, key.clone()));
        }
        if let Some(at) = expiry {
            self.expiries.insert((at, key.clone()));
        }
        self.bytes = self.bytes + added - old.as_ref().map_or(0, size);
        old
    }

    /// The earliest moment at which a key expires.
    pub(crate) fn next_expiry(&self) -> Option<Millis> {
        self.expiries.get_min().map(|(at, _)| *at)
    }

    /// Keys that have expired by `now`, earliest first.
    pub(crate) fn expired(&self, now: Millis) -> impl Iterator<Item = &Bytes> {
        self.expiries.iter().take_while(move |(at, _)| *at <= now).map(|(_, key)| key)
    }
}

/// Entries of a range in key order.
pub(crate) struct Range<'a>(
    Option<imbl::ordmap::RangedIter<'a, Bytes, Arc<Entry>, imbl::shared_ptr::DefaultSharedPtr>>,
);

impl<'a> Iterator for Range<'a> {
    type Item = &'a Arc<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.as_mut()?.next().map(|(_, entry)| entry)
    }
}
