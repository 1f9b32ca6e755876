//! The store's public handle.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;

use crate::backend;
use crate::disk::Disk;
use crate::entry::Event;
use crate::error::{OpenError, ReadError, Recovery, SaveError, TxnError, WriteError};
use crate::key::KeyRange;
use crate::log;
use crate::options::Options;
use crate::past::Past;
use crate::root::Root;
use crate::shared::{Appended, Shared, Wait};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::txn::{Committed, Txn};
use crate::watch::Watch;
use crate::{FIRST_REVISION, Millis, Revision, WriteResult};

/// Number of times that other writers may overtake a decision. After that it runs while they wait.
const OPTIMISTIC_RUNS: u32 = 8;
/// Number of keys that one step of [`Store::expire`] deletes while other writers wait.
const EXPIRE_KEYS: usize = 256;

/// Number of events that a read of an old revision copies while it holds the lock.
const COPIED_EVENTS: u64 = 4096;

/// A store. Clones are handles to the same one; it closes when the last is dropped.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    _owner: Arc<Owner>,
}

/// Dropped with the last handle.
struct Owner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

enum Attempt<T, E> {
    Decided(Result<Committed<T>, E>, Wait),
    Overtaken,
}

impl Store {
    /// Creates an empty store in memory. Starts no thread and no task.
    pub fn memory(options: Options) -> Store {
        Store::own(
            Shared::new(State::new(Root::empty(FIRST_REVISION), options, true), BTreeMap::new(), None),
            None,
        )
    }

    /// Opens the store on `disk`, or an empty store if the disk has no files. [`Recovery`] reports irregularities.
    ///
    /// On a disk that blocks, as every real disk does, the store makes all its calls on one separate thread. The
    /// thread ends with [`shutdown`](Store::shutdown) or with the last handle, which waits for it.
    pub async fn open(disk: impl Disk, options: Options) -> Result<(Store, Recovery), OpenError> {
        let (shared, report, thread) = backend::open(Arc::new(disk), options).await?;
        Ok((Store::own(shared, thread), report))
    }

    fn own(shared: Arc<Shared>, thread: Option<JoinHandle<()>>) -> Store {
        Store { _owner: Arc::new(Owner { shared: shared.clone(), thread }), shared }
    }

    /// Returns a new store in memory with this store's present state, revision, history and blobs. The cost depends
    /// on the number of events in history, not on the amount of data.
    pub fn fork(&self) -> Store {
        let blobs = self.shared.blobs().clone();
        let state = self.shared.state();
        let fork = State::with_history(state.visible.clone(), state.history.clone(), true);
        Store::own(Shared::new(fork, blobs, None), None)
    }

    /// Writes the present state and the blobs to an empty disk, from which [`Store::open`] goes on at the same revision.
    /// Writes to this store continue meanwhile, and are not in the copy. History is not in the copy either: a watch that
    /// resumes on it at an older revision ends with [`WatchError::Compacted`](crate::WatchError::Compacted). Returns the
    /// revision.
    ///
    /// Blocks on the disk, so call it on a thread that may block.
    ///
    /// # Errors
    /// If the disk has files already, or fails. An unfinished copy is refused by [`Store::open`].
    pub fn save(&self, disk: &dyn Disk) -> Result<Revision, SaveError> {
        let blobs = self.shared.blobs().clone();
        let root = self.shared.state().visible.clone();
        let revision = root.revision;
        log::save(disk, root, &blobs)?;
        Ok(revision)
    }

    /// Returns a small value kept beside the keys, such as a certificate. Blobs have no versions and no watches.
    pub fn blob(&self, name: &str) -> Option<Bytes> {
        self.shared.blobs().get(name).cloned()
    }

    /// Stores `bytes` as the blob `name`. Once this returns, the blob is durable. A crash leaves the old blob or the
    /// new one.
    ///
    /// # Panics
    /// If the name contains anything but ASCII letters, digits, `-`, `_` and `.`, or ends in `.tmp`: it names a file.
    pub async fn put_blob(&self, name: &str, bytes: impl Into<Bytes>) -> WriteResult {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(
            !name.is_empty() && name.bytes().all(plain) && !name.ends_with(".tmp"),
            "{name:?} names no blob"
        );
        self.shared.put_blob(name, bytes.into()).await
    }

    /// Returns the newest state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.shared.state().visible.clone())
    }

    /// Returns the state at `revision`. The first call for a revision walks over all changes since. Further calls
    /// cost nothing until several other revisions have been requested.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, ReadError> {
        let (root, mut wanted) = {
            let mut state = self.shared.state();
            state.history.check(revision, state.visible.revision)?;
            if revision == state.visible.revision {
                return Ok(Snapshot::new(state.visible.clone()));
            }
            if let Some(snapshot) = state.history.recall(revision) {
                return Ok(snapshot);
            }
            (state.visible.clone(), state.history.sequence_after(revision)..state.history.sequences().end)
        };
        let mut changes = Vec::with_capacity((wanted.end - wanted.start) as usize);
        while !wanted.is_empty() {
            // The lock is released in between, so that others have their turn.
            let state = self.shared.state();
            state.history.check(revision, state.visible.revision)?;
            let end = wanted.end.min(wanted.start + COPIED_EVENTS);
            changes.extend((wanted.start..end).map(|sequence| state.history.event(sequence).clone()));
            wanted.start = end;
        }
        let snapshot = Snapshot::old(root, Past::new(revision, changes));
        self.shared.state().history.remember(snapshot.clone());
        Ok(snapshot)
    }

    /// Returns the newest revision.
    pub fn revision(&self) -> Revision {
        self.shared.state().visible.revision
    }

    /// Returns the oldest revision that can be read or watched from.
    pub fn floor(&self) -> Revision {
        self.shared.state().history.floor()
    }

    /// Waits until the store has reached `revision`.
    pub async fn reached(&self, revision: Revision) {
        loop {
            let advanced = self.shared.advanced.notified();
            if self.revision() >= revision {
                return;
            }
            advanced.await;
        }
    }

    /// Waits until the watchers that earlier writes woke have taken their events. A watcher that is busy with earlier
    /// events was not woken, and is not waited for.
    pub async fn watchers_have_looked(&self) {
        self.shared.woken.have_looked().await;
    }

    /// Runs `decide` on a snapshot and commits the writes that it asks for.
    ///
    /// `decide` must be a pure function of its snapshot. It runs without any lock. If anything that it read changes
    /// before its writes commit, it runs again: the snapshot records its reads. It may see writes that are not
    /// durable yet, but its result is returned only when they are. If it asks for no writes, or returns an error,
    /// nothing is committed.
    ///
    /// If the future is dropped while it waits for the disk, the writes may still happen.
    pub async fn transact<T, E>(
        &self,
        mut decide: impl FnMut(&Snapshot, &mut Txn) -> Result<T, E>,
    ) -> Result<Committed<T>, TxnError<E>> {
        let mut runs = 0;
        self.shared.room().await?;
        let (outcome, wait) = loop {
            match self.attempt(&mut decide, runs >= OPTIMISTIC_RUNS)? {
                Attempt::Decided(outcome, wait) => break (outcome, wait),
                Attempt::Overtaken => runs += 1,
            }
        };
        self.shared.finish(wait).await?;
        outcome.map_err(TxnError::Decide)
    }

    fn attempt<T, E>(
        &self,
        decide: &mut impl FnMut(&Snapshot, &mut Txn) -> Result<T, E>,
        alone: bool,
    ) -> Result<Attempt<T, E>, WriteError> {
        let mut gate = alone.then(|| self.shared.gate());
        let (basis, snapshot) = {
            let state = self.shared.state();
            state.check_writable()?;
            (state.basis(), Snapshot::recording(state.tip().clone()))
        };
        let mut txn = Txn::default();
        let value = match decide(&snapshot, &mut txn) {
            Ok(value) if !txn.is_empty() => value,
            outcome => {
                let committed =
                    outcome.map(|value| Committed { value, revision: basis.revision, events: Vec::new() });
                return Ok(Attempt::Decided(committed, self.shared.state().wait_for(basis)));
            }
        };
        // Drops the snapshot too: an index with no other holder is changed in place.
        let reads = snapshot.into_reads();
        let gate = gate.take().unwrap_or_else(|| self.shared.gate());
        let Some(appended) = self.shared.commit(&gate, Some((basis, &reads)), txn)? else {
            return Ok(Attempt::Overtaken);
        };
        drop(gate);
        let Appended { events, revision, wait } = appended;
        Ok(Attempt::Decided(Ok(Committed { value, revision, events }), wait))
    }

    /// Watches the events of `range` after the revision `after`.
    pub fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, ReadError> {
        let mut state = self.shared.state();
        state.history.check(after, state.visible.revision)?;
        let (cursor, bell) = state.start_watch(&range, after);
        drop(state);
        Ok(Watch::new(self.shared.clone(), bell, cursor))
    }

    /// Raises the floor to `below`, or to the newest revision if that is lower. Older revisions can no longer be
    /// read.
    pub fn compact(&self, below: Revision) {
        let mut state = self.shared.state();
        let floor = below.min(state.visible.revision);
        state.history.raise_floor(floor);
    }

    /// Supplies the time, so that history which is too old is dropped.
    pub fn age(&self, now: Millis) {
        let mut state = self.shared.state();
        let current = state.visible.revision;
        state.history.age(now, current);
    }

    /// Deletes every key that expires at or before `now`, each in its own revision. Returns the number of keys.
    pub async fn expire(&self, now: Millis) -> Result<usize, WriteError> {
        let mut deleted = 0;
        loop {
            let (count, wait) = self.expire_some(now)?;
            self.shared.finish(wait).await?;
            deleted += count;
            if count < EXPIRE_KEYS {
                return Ok(deleted);
            }
        }
    }

    fn expire_some(&self, now: Millis) -> Result<(usize, Wait), WriteError> {
        let gate = self.shared.gate();
        let (keys, mut last) = {
            let mut state = self.shared.state();
            state.check_writable()?;
            let keys: Vec<_> = state.tip().expired(now).take(EXPIRE_KEYS).cloned().collect();
            let basis = state.basis();
            (keys, state.wait_for(basis))
        };
        let count = keys.len();
        for key in keys {
            let mut txn = Txn::default();
            txn.delete(key);
            if let Some(Appended { wait, .. }) = self.shared.commit(&gate, None, txn)? {
                last = wait;
            }
        }
        drop(gate);
        Ok((count, last))
    }

    /// Returns the time at which the next key expires.
    pub fn next_expiry(&self) -> Option<Millis> {
        self.shared.state().visible.next_expiry()
    }

    /// Calls `hook` with the events of every later transaction, in order, once they are visible and before watchers
    /// wake. Other writers wait for the hook, so it should be short. It may read the store, but not write to it. A
    /// store handle inside the hook keeps the store open.
    pub fn on_commit(&self, hook: impl Fn(&[Arc<Event>]) + Send + Sync + 'static) {
        self.shared.hooks.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(hook));
    }

    /// Makes all writes in flight durable, then closes the store: watches end, writes are refused, and reads of the
    /// present state go on.
    pub async fn shutdown(&self) {
        self.shared.shut_down().await;
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(log) = &self.shared.log {
            log.stop();
        }
        if let Some(thread) = self.thread.take() {
            // The thread has released the files for the next store. A panic of the thread was reported already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("Store")
            .field("revision", &state.visible.revision)
            .field("floor", &state.history.floor())
            .field("keys", &state.visible.len())
            .field("bytes", &state.visible.bytes())
            .finish()
    }
}
