//! The store's core: plain data that commits, publishes and remembers. No I/O, no waiting, no clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::bell::Bell;
use crate::entry::{Entry, Event};
use crate::error::WriteError;
use crate::group::Groups;
use crate::history::History;
use crate::options::Options;
use crate::root::Root;
use crate::snapshot::Reads;
use crate::txn::{Op, Value};
use crate::{Revision, WriteResult};

/// The most bytes on their way to the disk; a transaction that finds more waits before it begins.
const PENDING_BYTES: usize = 64 << 20;

/// By how much a value may grow and still be let into the reserve…
const HARDLY_BYTES: usize = 1024;
/// …which is this part of the quota.
const RESERVE_PART: u64 = 16;

pub(crate) struct State {
    /// The state of reads and watches. It is durable.
    pub(crate) visible: Root,
    /// The state of transactions: `visible` and the writes in flight to the disk, if there are any.
    tip: Option<Root>,
    /// Events between `visible` and `tip`.
    pending: VecDeque<Arc<Event>>,
    /// Counts how often the tip was given up. A decision on a tip that was given up must run again.
    epoch: u64,
    /// The reason why the tip was last given up.
    gave_up: Option<WriteError>,
    /// Bytes of `pending`.
    pending_bytes: usize,
    /// Tasks that wait for a revision to become visible.
    waiters: Vec<(Revision, oneshot::Sender<WriteResult>)>,
    pub(crate) history: History,
    pub(crate) groups: Groups,
    /// Whether new writes are refused.
    pub(crate) closing: bool,
    pub(crate) closed: bool,
    pub(crate) failed: Option<WriteError>,
    /// Whether writes become visible at once, because there is no disk to wait for.
    immediate: bool,
}

/// The state on which a decision ran.
#[derive(Clone, Copy)]
pub(crate) struct Basis {
    pub(crate) revision: Revision,
    epoch: u64,
}

/// An operation with the entry that it replaces.
pub(crate) struct Staged {
    key: Bytes,
    op: Op,
    old: Option<Arc<Entry>>,
}

/// Writes that the log is making durable.
pub(crate) struct InFlight {
    pub(crate) events: Vec<Arc<Event>>,
    root: Root,
    epoch: u64,
}

/// Work that a publication leaves for after the state's lock is released.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) wake: Vec<Arc<Bell>>,
    pub(crate) done: Vec<oneshot::Sender<WriteResult>>,
}

impl State {
    pub(crate) fn new(root: Root, options: Options, immediate: bool) -> Self {
        let history = History::new(root.revision, options);
        State::with_history(root, history, immediate)
    }

    /// A state with a past: `history` leads up to `root`.
    pub(crate) fn with_history(root: Root, history: History, immediate: bool) -> Self {
        State {
            history,
            visible: root,
            tip: None,
            pending: VecDeque::new(),
            epoch: 0,
            gave_up: None,
            pending_bytes: 0,
            waiters: Vec::new(),
            groups: Groups::default(),
            closing: false,
            closed: false,
            failed: None,
            immediate,
        }
    }

    /// From now on a write becomes visible only when [`publish`](Self::publish) is called for it.
    pub(crate) fn wait_for_log(&mut self) {
        self.immediate = false;
    }

    /// Whether too many bytes are in flight to the disk.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.pending_bytes > PENDING_BYTES
    }

    /// Returns the next batch for the log. The last batch has been published or given up by now.
    pub(crate) fn take_batch(&mut self) -> Option<InFlight> {
        let root = self.tip.clone()?;
        Some(InFlight { events: self.pending.iter().cloned().collect(), root, epoch: self.epoch })
    }

    /// Makes a durable batch visible.
    pub(crate) fn publish_batch(&mut self, batch: InFlight) -> Published {
        // The batch was given up while it was written: the store was closed, and no reader may see more of it.
        if batch.epoch == self.epoch { self.publish(Some(batch.root)) } else { Published::default() }
    }

    pub(crate) fn tip(&self) -> &Root {
        self.tip.as_ref().unwrap_or(&self.visible)
    }

    pub(crate) fn basis(&self) -> Basis {
        Basis { revision: self.tip().revision, epoch: self.epoch }
    }

    pub(crate) fn check_writable(&self) -> WriteResult {
        match &self.failed {
            _ if self.closing => Err(WriteError::Closed),
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Whether anything in `reads` has changed since `basis`, so that the decision must run again.
    pub(crate) fn outdated(&self, basis: Basis, reads: &Reads) -> bool {
        if basis.epoch != self.epoch {
            return true;
        }
        if basis.revision == self.tip().revision || reads.is_empty() {
            return false;
        }
        let newer = self.pending.iter().rev().take_while(|event| event.revision > basis.revision);
        if newer.into_iter().any(|event| reads.touched_by(event)) {
            return true;
        }
        match self.history.since(basis.revision) {
            Some(mut events) => events.any(|event| reads.touched_by(event)),
            None => true,
        }
    }

    /// Returns the operations that change something, and their revision. `reads` are current, so their entries need
    /// not be looked up again.
    pub(crate) fn stage(&self, ops: BTreeMap<Bytes, Op>, reads: Option<&Reads>) -> (Revision, Vec<Staged>) {
        let tip = self.tip();
        let staged = ops.into_iter().filter_map(|(key, op)| {
            let found = reads.and_then(|reads| reads.found(&key));
            let old = found.cloned().unwrap_or_else(|| tip.get(&key).cloned());
            let absent = old.is_none() && matches!(op, Op::Delete);
            (!absent).then_some(Staged { key, op, old })
        });
        (tip.revision + 1, staged.collect())
    }

    /// Whether there is room for `events`. A transaction that only deletes always has room.
    pub(crate) fn check_room(&self, events: &[Arc<Event>]) -> WriteResult {
        if events.iter().all(|event| event.new.is_none()) {
            return Ok(());
        }
        let Options { quota_bytes: quota, history_bytes, .. } = *self.history.options();
        let size = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.value.len() as u64);
        let added: u64 = events.iter().map(|event| event.key.len() as u64 + size(&event.new)).sum();
        let replaced: u64 = events.iter().map(|event| size(&event.old)).sum();
        // The replaced value stays in history, which drops older events to make room.
        let past = (self.history.bytes() + replaced).min(history_bytes as u64);
        let stored = (self.tip().bytes() + added).saturating_sub(replaced) + past;
        let hardly_grows = events.iter().all(|event| match (&event.old, &event.new) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(old), Some(new)) => new.value.len() <= old.value.len() + HARDLY_BYTES,
        });
        let most = if hardly_grows { quota.saturating_add(quota / RESERVE_PART) } else { quota };
        if stored > most { Err(WriteError::Quota) } else { Ok(()) }
    }

    /// Makes `events` the newest revision of the tip, and of the visible state if there is no disk to wait for.
    pub(crate) fn append(&mut self, revision: Revision, events: &[Arc<Event>]) -> Published {
        let root = if self.immediate {
            &mut self.visible
        } else {
            self.tip.get_or_insert_with(|| self.visible.clone())
        };
        for event in events {
            root.set(&event.key, event.new.clone());
        }
        root.revision = revision;
        self.pending_bytes += events.iter().map(written_bytes).sum::<usize>();
        self.pending.extend(events.iter().cloned());
        if self.immediate { self.publish(None) } else { Published::default() }
    }

    /// Makes everything up to `durable` (or up to `visible`) visible to reads and watches.
    pub(crate) fn publish(&mut self, durable: Option<Root>) -> Published {
        if let Some(root) = durable {
            self.visible = root;
        }
        let revision = self.visible.revision;
        let mut published = Published::default();
        while self.pending.front().is_some_and(|event| event.revision <= revision) {
            let event = self.pending.pop_front().expect("looked at just now");
            self.pending_bytes -= written_bytes(&event);
            let sequence = self.history.push(event.clone());
            self.groups.matched(&event.key, sequence, &self.history, &mut published.wake);
            published.events.push(event);
        }
        if self.tip.as_ref().is_some_and(|tip| tip.revision <= revision) {
            self.tip = None;
        }
        self.history.end_revision();
        published.done = self.take_waiters(|waits_for| waits_for <= revision);
        published
    }

    /// Gives up all writes that are not visible yet. Their waiters get `error`.
    pub(crate) fn give_up(&mut self, error: &WriteError) {
        self.epoch += 1;
        self.gave_up = Some(error.clone());
        self.tip = None;
        self.pending.clear();
        self.pending_bytes = 0;
        for waiter in self.take_waiters(|_| true) {
            let _ = waiter.send(Err(error.clone()));
        }
    }

    /// Returns a receiver that resolves when `basis` is visible, or `None` if it is visible already.
    pub(crate) fn wait_for(&mut self, basis: Basis) -> Option<oneshot::Receiver<WriteResult>> {
        if basis.epoch == self.epoch && basis.revision <= self.visible.revision {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if basis.epoch == self.epoch {
            self.waiters.push((basis.revision, sender));
        } else {
            let _ = sender.send(Err(self.gave_up.clone().unwrap_or(WriteError::Closed)));
        }
        Some(receiver)
    }

    fn take_waiters(&mut self, which: impl Fn(Revision) -> bool) -> Vec<oneshot::Sender<WriteResult>> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let (taken, left) = self.waiters.drain(..).partition(|(revision, _)| which(*revision));
        self.waiters = left;
        let taken: Vec<(Revision, _)> = taken;
        taken.into_iter().map(|(_, sender)| sender).collect()
    }
}

/// Gives each operation its value. Runs without the state's lock, so readers do not wait for it.
pub(crate) fn materialise(revision: Revision, staged: Vec<Staged>) -> Vec<Arc<Event>> {
    let event = |Staged { key, op, old }: Staged| {
        let new = match op {
            Op::Delete => None,
            Op::Put { value, expires_at, memo } => Some(Arc::new(Entry {
                key: key.clone(),
                value: match value {
                    Value::Known(value) => value,
                    Value::Made(make) => make(revision),
                },
                create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
                mod_revision: revision,
                expires_at,
                memo,
            })),
        };
        Arc::new(Event::new(revision, key, old, new))
    };
    staged.into_iter().map(event).collect()
}

fn written_bytes(event: &Arc<Event>) -> usize {
    event.key.len() + event.new.as_ref().map_or(0, |new| new.value.len())
}
