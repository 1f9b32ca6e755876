//! The way of an add to the queue: past the lock that the workers hold.

use std::time::Duration;

use super::core::KeyId;
use super::reason::Reason;
use super::table::Table;

/// Adds that wait to be taken into the queue, at most. Whoever fills the inbox empties it into the queue.
pub(super) const INBOX: usize = 256;
/// Numbers that are fetched at once for keys that are still to come, at most: never more than are in use already.
pub(super) const RESERVE: usize = 64;

/// Numbers by key: what whoever adds looks up, and no worker ever does.
pub(super) struct Names<T> {
    pub(super) ids: Table<T>,
    pub(super) reserve: Vec<KeyId>,
}

/// One add.
#[derive(Clone, Copy)]
pub(super) struct Add {
    pub(super) id: KeyId,
    pub(super) priority: i32,
    pub(super) reason: Reason,
    pub(super) at: Duration,
}

/// Adds that the queue does not know yet, and how many workers sleep until one comes.
pub(super) struct Inbox<T> {
    pub(super) adds: Vec<Add>,
    /// Keys that are added for the first time, with their numbers.
    pub(super) fresh: Vec<(KeyId, T)>,
    /// Workers that wait.
    pub(super) waiting: usize,
    /// The queue is shut down: nothing is taken any more.
    pub(super) closed: bool,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        Inbox { adds: Vec::new(), fresh: Vec::new(), waiting: 0, closed: false }
    }
}
