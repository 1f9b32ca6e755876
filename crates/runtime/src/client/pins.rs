//! Repeatable reads of one reconcile: each store's state, pinned at the first read of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::consistency::{Pending, WriteNumber};
use crate::cache::Snapshot;
use crate::revision::Revision;

/// The state of one store, and how much this process had written when it was pinned.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) state: Snapshot,
    pub(super) written: WriteNumber,
}

/// What one reconcile has pinned and written.
pub(crate) struct Pins {
    reconcile_id: Arc<str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    snapshots: BTreeMap<usize, Pin>,
    written: Vec<Pending>,
    /// How many writes there were.
    writes: u64,
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
    pub(super) fn get(&self, informer: usize) -> Option<Pin> {
        self.lock().snapshots.get(&informer).cloned()
    }

    /// How many writes this reconcile has done.
    pub(super) fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Pins a state, unless the reconcile wrote since it was asked for: another of its tasks may read what it wrote.
    pub(super) fn pin(&self, informer: usize, pin: Pin, writes: u64) {
        let mut state = self.lock();
        if state.writes == writes {
            state.snapshots.insert(informer, pin);
        }
    }

    /// After a write: the pins of the informers of its kind are lifted, so that the next read moves forward.
    pub(super) fn wrote(&self, informers: impl Iterator<Item = usize>, unseen: &[Pending]) {
        let mut state = self.lock();
        state.writes += 1;
        for informer in informers {
            state.snapshots.remove(&informer);
        }
        state.written.extend_from_slice(unseen);
    }

    /// The revision that reads of an informer see.
    pub(super) fn revision(&self, informer: usize) -> Option<Revision> {
        self.lock().snapshots.get(&informer).map(|pin| pin.state.revision())
    }

    /// What the reconcile wrote and not every cache has seen.
    pub(crate) fn unseen(&self) -> Vec<Pending> {
        let written = std::mem::take(&mut self.lock().written);
        written.into_iter().filter(|pending| !pending.fulfilled()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Store;

    #[test]
    fn a_state_from_before_an_own_write_is_not_pinned_after_it() {
        let pins = Pins::new("r".into());
        let pin = || Pin { state: Store::default().snapshot(), written: 1 };
        // One task of the reconcile waits for its read while another one writes.
        let asked = pins.writes();
        pins.wrote([7].into_iter(), &[]);
        pins.pin(7, pin(), asked);
        assert!(pins.get(7).is_none());
        pins.pin(7, pin(), pins.writes());
        assert!(pins.get(7).is_some());
    }
}
