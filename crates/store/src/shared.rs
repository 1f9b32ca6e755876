//! The state that all handles, watches and the log's driver share, and the commit of one transaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::bell::Woken;
use crate::entry::Event;
use crate::error::WriteError;
use crate::log_handle::Log;
use crate::snapshot::Reads;
use crate::state::{Basis, Published, State, materialise};
use crate::txn::Txn;
use crate::{Revision, WriteResult};

pub(crate) type Wait = Option<oneshot::Receiver<WriteResult>>;

type Hook = Box<dyn Fn(&[Arc<Event>]) + Send + Sync>;

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Held from the check of a transaction's reads until its writes are in the state: one writer at a time. Taken
    /// before `state`. Readers never take it.
    gate: Mutex<()>,
    /// The watchers that were woken.
    pub(crate) woken: Arc<Woken>,
    /// Notified at every new revision.
    pub(crate) advanced: Notify,
    pub(crate) hooks: RwLock<Vec<Hook>>,
    pub(crate) blobs: Mutex<BTreeMap<String, Bytes>>,
    /// `None` for the memory backend.
    pub(crate) log: Option<Log>,
}

/// The events of a commit, their revision, and a receiver for their durability.
pub(crate) struct Appended {
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) revision: Revision,
    pub(crate) wait: Wait,
}

impl Shared {
    pub(crate) fn new(state: State, blobs: BTreeMap<String, Bytes>, log: Option<Log>) -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::new(state),
            gate: Mutex::new(()),
            woken: Arc::default(),
            advanced: Notify::new(),
            hooks: RwLock::default(),
            blobs: Mutex::new(blobs),
            log,
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held can only come from a broken invariant in this module, because callers' code
        // never runs under the lock. The state is still consistent enough to read.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn blobs(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn gate(&self) -> MutexGuard<'_, ()> {
        // Callers' code does run under the gate, but a panic there has changed nothing.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits `txn` as the next revision, unless anything in `reads` has changed since.
    pub(crate) fn commit(
        &self,
        _gate: &MutexGuard<'_, ()>,
        reads: Option<(Basis, &Reads)>,
        txn: Txn,
    ) -> Result<Option<Appended>, WriteError> {
        let (revision, staged) = {
            let mut state = self.state();
            state.check_writable()?;
            if reads.is_some_and(|(basis, reads)| state.outdated(basis, reads)) {
                return Ok(None);
            }
            let (revision, staged) = state.stage(txn.into_ops(), reads.map(|(_, reads)| reads));
            if staged.is_empty() {
                let basis = state.basis();
                let wait = state.wait_for(basis);
                return Ok(Some(Appended { events: Vec::new(), revision: basis.revision, wait }));
            }
            (revision, staged)
        };
        let events = materialise(revision, staged);
        let (published, wait) = {
            let mut state = self.state();
            // The store may have been closed since: then nothing would write this transaction.
            state.check_writable()?;
            state.check_room(&events)?;
            let published = state.append(revision, &events);
            let basis = state.basis();
            // Under the same lock: if the store were closed in between, this write would look like one that was given
            // up.
            (published, state.wait_for(basis))
        };
        self.announce(published);
        if let Some(log) = &self.log {
            log.ring();
        }
        Ok(Some(Appended { events, revision, wait }))
    }

    /// Notifies everyone whom a publication concerns.
    pub(crate) fn announce(&self, mut published: Published) {
        let events = std::mem::take(&mut published.events);
        if events.is_empty() {
            return;
        }
        let _even_if_a_hook_panics = WakeOnDrop { published, woken: &self.woken, advanced: &self.advanced };
        let hooks = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        if !hooks.is_empty() {
            for transaction in events.chunk_by(|a, b| a.revision == b.revision) {
                hooks.iter().for_each(|hook| hook(transaction));
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        state.closed = true;
        state.give_up(&WriteError::Closed);
        state.groups.wake_all();
    }
}

/// Wakes the waiters of a publication when dropped: it is durable and visible.
struct WakeOnDrop<'a> {
    published: Published,
    woken: &'a Woken,
    advanced: &'a Notify,
}

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        for bell in &self.published.wake {
            bell.ring(self.woken);
        }
        self.advanced.notify_waiters();
        for waiter in self.published.done.drain(..) {
            // The waiter may be gone. The write has happened all the same.
            let _ = waiter.send(Ok(()));
        }
    }
}
