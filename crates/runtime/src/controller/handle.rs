//! A registered controller, seen from outside.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use super::arrivals::{Added, Arrivals};
use super::source::Source;
use super::watch::Watch;
use crate::client::OwnKind;
use crate::key::Key;
use crate::manager::{Manager, SetupError};
use crate::queue::{Priority, Reason, WorkQueue};

/// A registered controller: its queue from outside, and what changes while it runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    pub(super) queue: WorkQueue<Key>,
    pub(super) manager: Manager,
    pub(super) own_kind: Option<OwnKind>,
    pub(super) arrivals: Arc<Arrivals>,
    pub(super) stop: CancellationToken,
}

/// A watch that was added to a controller; dropping it ends the watch. Its informer ends with the last holder.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct AddedWatch {
    _ends: DropGuard,
    arrivals: Arc<Arrivals>,
    number: u64,
}

impl Drop for AddedWatch {
    fn drop(&mut self) {
        self.arrivals.forget(self.number);
    }
}

impl ControllerHandle {
    /// Queues a key.
    pub fn enqueue(&self, key: &Key) {
        self.queue.add_with(key, Priority::DEFAULT, Reason::MANUAL);
    }

    /// Returns how many keys are ready.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Begins another watch at any time, until the result is dropped: for kinds and namespaces that are known only while
    /// the program runs.
    ///
    /// # Errors
    /// When the controller has stopped, or when the watch is by owner and the controller has no kind of its own.
    pub fn watch(&self, watch: Watch) -> Result<AddedWatch, SetupError> {
        let informer = self.manager.hold(watch.target(&self.manager));
        let no_kind = || SetupError::NoKind(self.queue.name().to_owned());
        let source = Source::of_watch(informer, watch, self.own_kind.as_ref()).ok_or_else(no_kind)?;
        let ends = CancellationToken::new();
        let added = Added { source, ends: ends.clone() };
        let number = self.arrivals.add(added).ok_or(SetupError::Stopped)?;
        Ok(AddedWatch { _ends: ends.drop_guard(), arrivals: Arc::clone(&self.arrivals), number })
    }

    /// Stops this controller alone: running reconciles finish, what it watched and nobody else holds ends, and its
    /// name may be taken again. Also before it runs, while its caches sync or this process is not the leader.
    pub fn stop(&self) {
        self.stop.cancel();
        self.manager.drop_stopped();
    }
}
