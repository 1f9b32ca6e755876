//! Changes as a reflector learns them.

use super::object::Object;
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
    /// Deliver every cached object again: nothing changed. [`crate::informer::Store::apply`] gives an update of each.
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
