//! Repeatable reads of one reconcile: each store's state, pinned at the first read of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::pending::Pending;
use crate::client::reconciled::Reconciled;
use crate::client::transport::Sender;
use crate::informer::Snapshot;
use crate::key::Key;
use crate::revision::Revision;

/// The state of one store.
#[derive(Clone)]
pub(in crate::client) struct Pin {
    pub(in crate::client) state: Snapshot,
    /// The writes of this process at the time of the pin that the state does not show: a read of one moves on. Others may
    /// see it come meanwhile and forget it, so it is kept here.
    pub(in crate::client) behind: Vec<Pending>,
}

/// The snapshots and the writes of one reconcile.
pub(crate) struct Pins {
    sender: Sender,
    reconciled: Option<Reconciled>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    snapshots: BTreeMap<usize, Pin>,
    written: Vec<Pending>,
    /// How many writes there were.
    writes: u64,
    /// Whether one of them changed the object of the reconcile.
    changed_own: bool,
}

impl Pins {
    /// Those of a reconcile, about an object of the controller's own kind if it has one.
    pub(crate) fn new(sender: Sender, reconciled: Option<Reconciled>) -> Self {
        Pins { sender, reconciled, state: Mutex::default() }
    }

    /// The object of the reconcile.
    pub(in crate::client) fn reconciled(&self) -> Option<&Reconciled> {
        self.reconciled.as_ref()
    }

    /// Notes that a write changed the object of the reconcile.
    pub(in crate::client) fn note_own_change(&self) {
        self.lock().changed_own = true;
    }

    /// Whether the reconcile changed its own object.
    pub(crate) fn changed_own(&self) -> bool {
        self.lock().changed_own
    }

    pub(in crate::client) fn sender(&self) -> &Sender {
        &self.sender
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// The pinned state of an informer, if there is one.
    pub(in crate::client) fn get(&self, informer: usize) -> Option<Pin> {
        self.lock().snapshots.get(&informer).cloned()
    }

    /// How many writes this reconcile has done.
    pub(in crate::client) fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// Pins a state, unless the reconcile wrote since it was asked for: another of its tasks may read what it wrote. Gives
    /// what is to be read: another task may have pinned a newer one meanwhile.
    pub(in crate::client) fn pin(&self, informer: usize, pin: Pin, writes: u64) -> Snapshot {
        let mut state = self.lock();
        if state.writes != writes {
            return pin.state;
        }
        let newer = |known: &&Pin| known.state.writes() > pin.state.writes();
        if let Some(known) = state.snapshots.get(&informer).filter(newer) {
            return known.state.clone();
        }
        let read = pin.state.clone();
        state.snapshots.insert(informer, pin);
        read
    }

    /// Whether the pinned state lacks what this process had written under `key` before, waited for or not.
    pub(in crate::client) fn is_behind(&self, informer: usize, key: &Key) -> bool {
        let state = self.lock();
        state.snapshots.get(&informer).is_some_and(|pin| pin.behind.iter().any(|write| write.is_of(key)))
    }

    /// After a write: the pins of the informers of its kind are lifted, so that the next read moves forward.
    pub(in crate::client) fn wrote(&self, informers: impl Iterator<Item = usize>, unseen: &[Pending]) {
        let mut state = self.lock();
        state.writes += 1;
        for informer in informers {
            state.snapshots.remove(&informer);
        }
        state.written.extend_from_slice(unseen);
    }

    /// The revision that reads of an informer see.
    pub(in crate::client) fn revision(&self, informer: usize) -> Option<Revision> {
        self.lock().snapshots.get(&informer).map(|pin| pin.state.revision())
    }

    /// The writes of the reconcile that not every cache has seen.
    pub(crate) fn unseen(&self) -> Vec<Pending> {
        let written = std::mem::take(&mut self.lock().written);
        written.into_iter().filter(|pending| !pending.fulfilled()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::informer::Delta;
    use crate::informer::{Scope, Store};

    fn sender() -> Sender {
        Sender { reconcile_id: "r".into(), causes: "".into() }
    }

    #[test]
    fn a_state_from_before_an_own_write_is_not_pinned_after_it() {
        let pins = Pins::new(sender(), None);
        let pin = || Pin { state: Store::default().snapshot(), behind: Vec::new() };
        // One task of the reconcile waits for its read while another one writes.
        let asked = pins.writes();
        pins.wrote([7].into_iter(), &[]);
        pins.pin(7, pin(), asked);
        assert!(pins.get(7).is_none());
        pins.pin(7, pin(), pins.writes());
        assert!(pins.get(7).is_some());
    }

    #[test]
    fn a_pin_never_goes_back_also_when_the_server_does() {
        let (pins, store) = (Pins::new(sender(), None), Store::default());
        let at = |revision| {
            store.apply(&Scope::All, Delta::Replaced { revision, objects: vec![] });
            Pin { state: store.snapshot(), behind: Vec::new() }
        };
        let (older, newer, restored) = (at(5), at(5), at(3));
        store.add_scope(&Scope::namespace("new"));
        let widened = Pin { state: store.snapshot(), behind: Vec::new() };
        let read = |pin| pins.pin(7, pin, 0).revision();
        // Two tasks of the reconcile read at a time, and the one that looked first pins last.
        let newest = newer.state.writes();
        read(newer);
        read(older);
        assert_eq!(pins.get(7).unwrap().state.writes(), newest);
        assert_eq!((read(restored), pins.revision(7)), (3, Some(3)));
        assert_eq!(read(widened), 0, "a namespace that joins has not got anywhere yet");
    }
}
