//! What is stored under a key, and what happened to it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{Millis, Revision};

/// A key's value as one revision left it. Immutable and shared by every snapshot that has it.
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The revision that wrote this value.
    pub mod_revision: Revision,
    /// When [`Store::expire`](crate::Store::expire) deletes it, on the owner's clock.
    pub expires_at: Option<Millis>,
    pub(crate) memo: Memo,
}

/// One key's change in one revision: created (`old` is none), updated, or deleted (`new` is none).
pub struct Event {
    /// The revision of the change; several keys of one transaction share it.
    pub revision: Revision,
    /// The key.
    pub key: Bytes,
    /// What the key had before.
    pub old: Option<Arc<Entry>>,
    /// What it has now.
    pub new: Option<Arc<Entry>>,
    memo: Memo,
}

/// A slot for something that a reader computed, kept as long as what it was computed from.
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
    /// The caller's decoded form of this entry: made once, on first use, and shared by everyone after.
    ///
    /// # Panics
    /// If a memo of another type is there already: one store's entries have one memo type.
    pub fn memo<T: Any + Send + Sync>(&self, make: impl FnOnce(&Entry) -> T) -> &T {
        self.memo.get_or(|| make(self))
    }

    /// This key at these revisions with another value: how a reader sees it in a form of its own. The store never holds
    /// one.
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
    /// This change with its entries in a form of a reader's own.
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

    /// The caller's encoded form of this event: made once, on first use, and shared by all its watchers.
    ///
    /// # Panics
    /// If a memo of another type is there already: one store's events have one memo type.
    pub fn memo<T: Any + Send + Sync>(&self, make: impl FnOnce(&Event) -> T) -> &T {
        self.memo.get_or(|| make(self))
    }

    /// What keeping this event costs beyond the present state: itself, and the value that it replaced.
    pub(crate) fn kept_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| size_of::<Entry>() + old.value.len());
        size_of::<Event>() + self.key.len() + old
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value may be a secret: its length is all that a log gets to see.
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
