//! The events that a handler gets.

use super::object::Object;
use crate::key::Key;

/// One change to a cached object, as a handler gets it. The cache contains it already.
#[derive(Debug, Clone)]
pub enum Event {
    /// An object appeared.
    Add {
        /// The object.
        object: Object,
        /// It was there when the handler began: part of the first list, or cached before a late handler came.
        is_initial: bool,
    },
    /// An object changed, or is delivered again by a resync: then both have the same revision.
    Update {
        /// The state that the handler got before.
        old: Object,
        /// The state that is cached now.
        new: Object,
    },
    /// An object is gone.
    Delete {
        /// Its last state.
        object: Object,
        /// The deletion was inferred, so that `object` may be older than the last state that existed.
        final_state_unknown: bool,
    },
}

impl Event {
    /// The object's newest known state.
    pub fn object(&self) -> &Object {
        match self {
            Event::Add { object, .. } | Event::Update { new: object, .. } | Event::Delete { object, .. } => {
                object
            }
        }
    }

    /// The object's key.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Whether it tells an object again that was told before. A server that went back gives one revision to two states:
    /// the second is no resync.
    pub fn is_resync(&self) -> bool {
        matches!(self, Event::Update { old, new } if old.same_reading(new))
    }
}
