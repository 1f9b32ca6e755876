//! Entries and events: the value of a key, and a change of it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{Millis, Revision};

/// The value of a key at one revision. Immutable and shared by every snapshot that has it.
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
    /// The time, on the owner's clock, at which [`Store::expire`](crate::Store::expire) deletes the entry.
    pub expires_at: Option<Millis>,
    pub(crate) memo: Memo,
}

/// A change of one key in one revision: created (`old` is `None`), updated, or deleted (`new` is `None`).
pub struct Event {
    /// The revision of the change. Several keys of one transaction share it.
    pub revision: Revision,
    /// The key.
    pub key: Bytes,
    /// The entry before the change.
    pub old: Option<Arc<Entry>>,
    /// The entry after the change.
    pub new: Option<Arc<Entry>>,
    memo: Memo,
}

/// A slot for a value that a reader computed. It lives as long as the entry or event that it was computed from.
#[derive(Default)]
pub(crate) struct Memo(OnceLock<Box<dyn Any + Send + Sync>>);

impl Memo {
    pub(crate) fn filled(value: Box<dyn Any + Send + Sync>) -> Self {
        Memo(OnceLock::from(value))
    }

    fn get_or<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> &T {
        let value: &dyn Any = self.0.get_or_init(|| Box::new(make())).as_ref();
        value.downcast_ref().expect("all users of a store keep the same type in its memo slots")
    }
}

impl Entry {
    /// Returns the caller's decoded form of this entry. `make` runs on first use, and all later callers share the
    /// result.
    ///
    /// # Panics
    /// If a memo of another type exists: all entries of one store have one memo type.
    pub fn memo<T: Any + Send + Sync>(&self, make: impl FnOnce(&Entry) -> T) -> &T {
        self.memo.get_or(|| make(self))
    }

    /// Returns this key at these revisions with another value, for a reader that sees the value in another form. The
    /// store never holds such an entry.
    #[must_use]
    pub fn with_value(&self, value: Bytes) -> Entry {
        Entry {
            key: self.key.clone(),
            value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            expires_at: self.expires_at,
            memo: Memo::default(),
        }
    }
}

impl Event {
    /// Returns this change with its entries in a reader's own form.
    #[must_use]
    pub fn with_entries(&self, old: Option<Arc<Entry>>, new: Option<Arc<Entry>>) -> Event {
        Event::new(self.revision, self.key.clone(), old, new)
    }

    pub(crate) fn new(
        revision: Revision,
        key: Bytes,
        old: Option<Arc<Entry>>,
        new: Option<Arc<Entry>>,
    ) -> Self {
        Event { revision, key, old, new, memo: Memo::default() }
    }

    /// Returns the caller's encoded form of this event. `make` runs on first use, and all watchers share the result.
    ///
    /// # Panics
    /// If a memo of another type exists: all events of one store have one memo type.
    pub fn memo<T: Any + Send + Sync>(&self, make: impl FnOnce(&Event) -> T) -> &T {
        self.memo.get_or(|| make(self))
    }

    /// Memory that keeping this event costs beyond the present state: the event, and the value that it replaced.
    pub(crate) fn kept_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| size_of::<Entry>() + old.value.len());
        size_of::<Event>() + self.key.len() + old
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may be a secret, so a log sees only its length.
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("value_len", &self.value.len())
            .field("create_revision", &self.create_revision)
            .field("mod_revision", &self.mod_revision)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("revision", &self.revision)
            .field("key", &self.key)
            .field("old", &self.old)
            .field("new", &self.new)
            .finish()
    }
}
