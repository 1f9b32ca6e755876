//! A key in the hands of a worker.

use std::hash::Hash;
use std::time::Duration;

use super::Priority;
use super::core::Run;
use super::reason::{Reason, Reasons};
use super::shell::WorkQueue;
use super::slots::KeyId;

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
