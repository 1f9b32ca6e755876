//! A key in the hands of a worker.

use std::hash::Hash;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::Priority;
use super::core::Run;
use super::inbox::BATCH;
use super::reason::{Reason, Reasons};
use super::shell::{State, WorkQueue};
use super::slots::KeyId;

/// How often a worker that has just finished a key looks for the next add before it goes to sleep: about as long as
/// waking it would take.
const LINGER: usize = 64;

/// How often a worker tries to get a lock that another worker has, before it waits for it. After each time it lets
/// other tasks run for twice as long as before: keys that are worked off faster than a lock goes from one core to the
/// other are worked off by one core.
const ATTEMPTS: u32 = 7;

/// A key in the hands of a worker. Dropping it gives the key back ([`super::Queue::done`]), also when the worker
/// panics.
pub struct Item<T: Clone + Eq + Hash> {
    /// Empty once the key was given back.
    pub(super) queue: Option<WorkQueue<T>>,
    pub(super) id: KeyId,
    pub(super) key: T,
    pub(super) priority: Priority,
    pub(super) reasons: Reasons,
    pub(super) failures: u32,
}

impl<T: Clone + Eq + Hash> Item<T> {
    pub(super) fn new(queue: WorkQueue<T>, key: T, run: &Run) -> Self {
        Item {
            queue: Some(queue),
            id: run.id,
            key,
            priority: Priority(run.priority),
            reasons: run.reasons,
            failures: run.failures,
        }
    }

    /// The key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// The priority that it was queued with.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Why it was queued.
    pub fn reasons(&self) -> &Reasons {
        &self.reasons
    }

    /// How often it was rate-limited since it was forgotten.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets its failures.
    pub fn forget(&self) {
        if let Some(queue) = &self.queue {
            queue.forget_id(self.id);
        }
    }

    /// Queues it again after `delay`, without looking it up.
    pub fn add_after(&self, delay: Duration, priority: Priority, reason: Reason) {
        if let Some(queue) = &self.queue {
            queue.delay(priority, |queue, now| queue.add_id_after(self.id, delay, priority.0, reason, now));
        }
    }

    /// Queues it again after what the limiter says, without looking it up. Says how long.
    pub fn add_rate_limited(&self, priority: Priority, reason: Reason) -> Duration {
        let Some(queue) = &self.queue else { return Duration::ZERO };
        queue.delay(priority, |queue, now| queue.add_id_rate_limited(self.id, priority.0, reason, now))
    }

    /// Gives the key back.
    pub fn done(self) {}
}

impl<T: Clone + Eq + Hash> Drop for Item<T> {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.done(self.id);
        }
    }
}

impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// The next key, as soon as there is one; `None` once the queue is shut down and empty.
    ///
    /// Dropping the future takes no key.
    pub async fn get(&self) -> Option<Item<T>> {
        // A long queue of what needs no wait must not keep the thread from timers, watches and the lease.
        tokio::task::coop::consume_budget().await;
        loop {
            let (ready, due, mut waiter) = {
                let mut state = self.lock();
                if let Some(item) = self.take(&mut state) {
                    self.wake(state);
                    return Some(item);
                }
                if state.queue.shutting_down() {
                    return None;
                }
                let Some(waiter) = self.begin_waiting(&mut state) else { continue };
                (self.0.ready.notified(), state.queue.next_due().filter(|_| waiter.timekeeper), waiter)
            };
            match due {
                None => ready.await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = ready => {}
                        () = self.0.earlier.notified() => {}
                        () = tokio::time::sleep_until(self.0.start + due) => {}
                    }
                }
            }
            waiter.gave_up = false;
        }
    }

    /// Counts the caller as waiting, unless something has come meanwhile.
    fn begin_waiting(&self, state: &mut State<T>) -> Option<Waiter<'_, T>> {
        if !self.0.inbox.begin_waiting() {
            return None;
        }
        state.adds.shrink_to(BATCH);
        state.waiting += 1;
        let timekeeper = state.queue.delayed() > 0 && !state.timekeeper;
        state.timekeeper |= timekeeper;
        Some(Waiter { queue: self, timekeeper, gave_up: true })
    }

    /// Gives a key back and takes the next one: [`Item::done`] and [`WorkQueue::get`] in one step.
    ///
    /// Dropping the future gives the finished key back and takes no other.
    pub async fn next(mut finished: Item<T>) -> Option<Item<T>> {
        finished.advance().await.then_some(finished)
    }

    /// Looks for an add that is about to come, where another thread may be making one.
    fn linger(&self) {
        let alone =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread);
        if alone {
            return;
        }
        for _ in 0..LINGER {
            if self.0.inbox.pending() {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// The next key if one is ready.
    pub fn try_get(&self) -> Option<Item<T>> {
        let mut state = self.lock();
        self.take(&mut state)
    }

    fn take(&self, state: &mut State<T>) -> Option<Item<T>> {
        let now = self.time_for(&state.queue);
        let run = state.queue.run_next(now)?;
        let key = state.queue.key(run.id).expect("a running key is known").clone();
        Some(Item::new(self.clone(), key, &run))
    }
}

impl<T: Clone + Eq + Hash> Item<T> {
    /// Gives the key back and becomes the next one, in its place: [`WorkQueue::next`] without moving anything. Says
    /// whether there is one; if not, the queue is shut down and empty.
    ///
    /// Dropping the future leaves the item with its key, or with none if that was given back already.
    pub async fn advance(&mut self) -> bool {
        tokio::task::coop::consume_budget().await;
        let mut attempts = 0;
        let taken = loop {
            match self.exchange(attempts == ATTEMPTS) {
                Poll::Ready(taken) => break taken,
                Poll::Pending => {
                    for _ in 0..1 << attempts {
                        tokio::task::yield_now().await;
                    }
                    attempts += 1;
                }
            }
        };
        if taken {
            return true;
        }
        // Given back already: nothing is left for its drop to do.
        let Some(queue) = self.queue.take() else { return false };
        queue.linger();
        match queue.get().await {
            Some(next) => *self = next,
            None => return false,
        }
        true
    }

    /// Gives the key back and becomes the next one, if there is one. Pending: another worker has the lock, so that a
    /// thread has better things to do than to fight for it. `insist` waits.
    fn exchange(&mut self, insist: bool) -> Poll<bool> {
        let Item { queue, id, key, priority, reasons, failures } = self;
        let Some(queue) = queue else { return Poll::Ready(false) };
        let Some(mut state) = (if insist { Some(queue.lock()) } else { queue.try_lock() }) else {
            return Poll::Pending;
        };
        let now = queue.time_for(&state.queue);
        state.queue.finish(*id, now);
        let Some((place, _)) = state.queue.take(now) else {
            queue.wake_after_finish(state);
            return Poll::Ready(false);
        };
        let slots = &mut state.queue.keys.slots;
        *id = slots.id(place);
        let slot = &mut slots[place];
        (*priority, *failures) = (Priority(slot.priority), slot.failures);
        *reasons = std::mem::take(&mut slot.reasons);
        key.clone_from(slot.key());
        queue.wake(state);
        Poll::Ready(true)
    }
}

/// Counts a waiting worker. One that gives up (its future is dropped) hands on what it was woken for; one that was
/// woken looks again itself.
struct Waiter<'a, T: Clone + Eq + Hash> {
    queue: &'a WorkQueue<T>,
    timekeeper: bool,
    gave_up: bool,
}

impl<T: Clone + Eq + Hash> Drop for Waiter<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiting -= 1;
        state.timekeeper &= !self.timekeeper;
        self.queue.0.inbox.end_waiting();
        if self.gave_up {
            self.queue.wake(state);
        }
    }
}
