//! Repeatable reads of one reconcile: each store's state, pinned at the first read of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::consistency::Pending;
use crate::cache::Snapshot;
use crate::revision::Revision;

/// What one reconcile has pinned and written.
pub(crate) struct Pins {
    reconcile_id: Arc<str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    snapshots: BTreeMap<usize, Snapshot>,
    written: Vec<Pending>,
}

impl Pins {
    pub(crate) fn new(reconcile_id: Arc<str>) -> Self {
        Pins { reconcile_id, state: Mutex::default() }
    }

    pub(super) fn reconcile_id(&self) -> &str {
        &self.reconcile_id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// The pinned state of an informer, if there is one.
    pub(super) fn get(&self, informer: usize) -> Option<Snapshot> {
        self.lock().snapshots.get(&informer).cloned()
    }

    /// Pins a state.
    pub(super) fn pin(&self, informer: usize, snapshot: &Snapshot) {
        self.lock().snapshots.insert(informer, snapshot.clone());
    }

    /// After a write: the pins of the informers of its kind are lifted, so that the next read moves forward.
    pub(super) fn wrote(&self, informers: impl Iterator<Item = usize>, unseen: &[Pending]) {
        let mut state = self.lock();
        for informer in informers {
            state.snapshots.remove(&informer);
        }
        state.written.extend_from_slice(unseen);
    }

    /// The revision that reads of an informer see.
    pub(super) fn revision(&self, informer: usize) -> Option<Revision> {
        self.lock().snapshots.get(&informer).map(Snapshot::revision)
    }

    /// What the reconcile wrote and not every cache has seen.
    pub(crate) fn unseen(&self) -> Vec<Pending> {
        let written = std::mem::take(&mut self.lock().written);
        written.into_iter().filter(|pending| !pending.fulfilled()).collect()
    }
}
