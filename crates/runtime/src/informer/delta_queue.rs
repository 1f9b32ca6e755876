//! The queue of deltas, in the order in which the server sent them.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

use super::cache::Delta;
use crate::latch::Latch;

/// Deltas that may wait before whoever pushes must wait too: the server's stream then waits in its socket.
const QUEUE_CAPACITY: usize = 4096;
/// Deltas that are processed as one.
const BATCH: usize = 1000;

/// Deltas in the order in which they were sent, from one reflector to one processor.
///
/// ```
/// use setpoint::informer::{Delta, DeltaQueue};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let queue = DeltaQueue::default();
/// queue.push([Delta::Replaced { revision: 3, objects: vec![] }, Delta::Bookmark { revision: 4 }]).await;
/// let mut revisions = Vec::new();
/// while !queue.is_empty() {
///     queue.pop(|deltas| revisions.extend(deltas.map(|delta| delta.revision()))).await;
/// }
/// assert_eq!(revisions, [3, 4]);
/// assert!(queue.has_synced());
/// # });
/// ```
#[derive(Default)]
pub struct DeltaQueue {
    inner: Mutex<Waiting>,
    pushed: Notify,
    popped: Notify,
    ended: Notify,
    synced: Latch,
}

#[derive(Default)]
struct Waiting {
    deltas: VecDeque<Delta>,
    closed: bool,
}

impl DeltaQueue {
    /// Appends deltas; waits while too many wait already.
    ///
    /// Dropping the future while it waits appends nothing.
    pub async fn push(&self, deltas: impl IntoIterator<Item = Delta>) {
        loop {
            let room = self.popped.notified();
            {
                let mut waiting = self.lock();
                if waiting.closed {
                    return;
                }
                if waiting.deltas.len() < QUEUE_CAPACITY {
                    waiting.deltas.extend(deltas);
                    self.pushed.notify_one();
                    return;
                }
            }
            room.await;
        }
    }

    /// Waits for deltas and hands some of them to `process`, in order: a replacement alone, others in batches.
    /// False once the queue is closed and empty.
    ///
    /// Dropping the future while it waits takes nothing.
    pub async fn pop(&self, process: impl FnOnce(&mut dyn Iterator<Item = Delta>)) -> bool {
        loop {
            let more = self.pushed.notified();
            let (mut batch, closed) = {
                let mut waiting = self.lock();
                (waiting.take_batch(), waiting.closed)
            };
            if !batch.is_empty() {
                self.popped.notify_one();
                let replaces = matches!(batch.front(), Some(Delta::Replaced { .. }));
                process(&mut batch.drain(..));
                // Only now: has_synced promises that the first state was processed, not merely taken.
                if replaces {
                    self.synced.set();
                }
                return true;
            }
            if closed {
                self.synced.abandon();
                return false;
            }
            more.await;
        }
    }

    /// Whether a first full state was processed.
    pub fn has_synced(&self) -> bool {
        self.synced.is_set()
    }

    /// Waits for it. False when the queue was closed and emptied before.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_synced(&self) -> bool {
        self.synced.wait().await
    }

    /// Nobody will ever pop: whoever waits for the first state waits in vain.
    pub(crate) fn abandon(&self) {
        self.synced.abandon();
    }

    /// How many deltas wait.
    pub fn len(&self) -> usize {
        self.lock().deltas.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes no more deltas; those that wait are still handed out.
    pub fn close(&self) {
        self.lock().closed = true;
        self.pushed.notify_waiters();
        self.popped.notify_waiters();
        self.ended.notify_waiters();
    }

    /// Waits until it is closed.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn closed(&self) {
        loop {
            let ended = self.ended.notified();
            if self.is_closed() {
                return;
            }
            ended.await;
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.inner.lock().expect("no holder of this lock panics")
    }
}

impl Waiting {
    fn take_batch(&mut self) -> VecDeque<Delta> {
        let alone = |delta: &Delta| matches!(delta, Delta::Replaced { .. } | Delta::Sync);
        let length = match self.deltas.front() {
            Some(first) if alone(first) => 1,
            _ => self.deltas.iter().take(BATCH).take_while(|delta| !alone(delta)).count(),
        };
        if length == self.deltas.len() {
            return std::mem::take(&mut self.deltas);
        }
        self.deltas.drain(..length).collect()
    }
}
