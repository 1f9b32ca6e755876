//! Sources that were added to a controller and are not listened to yet: it may not run for long, where another process
//! leads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::source::Source;

/// A source that was added, and what ends it.
pub(super) struct Added {
    pub(super) source: Source,
    pub(super) ends: CancellationToken,
}

/// Those that wait, by the number that each was given.
#[derive(Default)]
pub(super) struct Arrivals {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    closed: bool,
    last: u64,
    sources: BTreeMap<u64, Added>,
}

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl Arrivals {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }

    /// Lets a source wait; its number, unless nobody will ever listen to it.
    pub(super) fn add(&self, added: Added) -> Option<u64> {
        let mut waiting = self.waiting();
        if waiting.closed {
            // Dropped without the lock, with the informer that it holds.
            drop(waiting);
            return None;
        }
        waiting.last += 1;
        let number = waiting.last;
        waiting.sources.insert(number, added);
        drop(waiting);
        self.more.notify_one();
        Some(number)
    }

    /// The next one, as soon as there is one.
    pub(super) async fn next(&self) -> Added {
        loop {
            let first = self.waiting().sources.pop_first();
            match first {
                Some((_, added)) => return added,
                None => self.more.notified().await,
            }
        }
    }

    /// Drops one that still waits.
    pub(super) fn forget(&self, number: u64) {
        let forgotten = self.waiting().sources.remove(&number);
        drop(forgotten);
    }

    /// Nobody listens any more.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting();
        waiting.closed = true;
        let left = std::mem::take(&mut waiting.sources);
        drop(waiting);
        drop(left);
    }
}
