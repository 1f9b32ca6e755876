//! Changes in the order in which the server told them, and the queue that keeps that order.

use crate::cache::Object;
use crate::revision::Revision;

/// One thing that a reflector learnt.
#[derive(Debug, Clone)]
pub enum Delta {
    /// An object was created, or came to match the selector.
    Added(Object),
    /// An object changed.
    Updated(Object),
    /// An object was deleted, or ceased to match the selector. Holds its last state.
    Deleted(Object),
    /// The whole state at `revision`: whatever is not among `objects` is gone.
    Replaced {
        /// The revision of the list.
        revision: Revision,
        /// Every object, in the server's order.
        objects: Vec<Object>,
    },
    /// Deliver every cached object again to the handlers that want it; nothing changed.
    Sync,
    /// Nothing else happened up to `revision`.
    Bookmark {
        /// The revision reached.
        revision: Revision,
    },
}

impl Delta {
    /// The revision that the state has reached with this change; zero when it tells none.
    pub fn revision(&self) -> Revision {
        match self {
            Delta::Added(object) | Delta::Updated(object) | Delta::Deleted(object) => object.revision(),
            Delta::Replaced { revision, .. } | Delta::Bookmark { revision } => *revision,
            Delta::Sync => 0,
        }
    }
}
