//! The async shell around the pure queue: a lock, a clock and wake-ups.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Priority;
use super::core::{KeyId, Queue, QueueOptions, Run};
use super::hash::FoldState;
use super::reason::{Reason, Reasons};
use super::stats::Stats;

/// A work queue that any number of producers and workers share. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use setpoint::queue::{QueueOptions, WorkQueue};
/// let queue = WorkQueue::new("foos", QueueOptions::default());
/// queue.add("default/one");
/// queue.add("default/one");
/// let item = queue.get().await.unwrap();
/// assert_eq!(*item.key(), "default/one");
/// drop(item); // done
/// queue.shut_down();
/// assert!(queue.get().await.is_none());
/// # }
/// ```
pub struct WorkQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    name: Arc<str>,
    start: Instant,
    /// Numbers by key: apart from the state, so that whoever adds looks its key up without holding up the workers.
    /// Taken before the state, never after it. A number that the state does not know is void.
    names: Mutex<HashMap<T, KeyId, FoldState>>,
    state: Mutex<State<T>>,
    ready: Notify,
    earlier: Notify,
    drained: Notify,
}

struct State<T> {
    queue: Queue<T>,
    waiting: usize,
    /// A worker was woken and has not looked yet. Until it does nobody else is: it wakes the next one itself if
    /// there is more than one key.
    woken: bool,
    timekeeper: bool,
    draining: bool,
}

/// What a scrape reads of a queue.
#[derive(Debug)]
pub(crate) struct QueueReport {
    pub(crate) depths: Vec<(i32, usize)>,
    pub(crate) stats: Stats,
    pub(crate) unfinished: Duration,
    pub(crate) longest: Duration,
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        WorkQueue(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// An empty queue; `name` is the label of its metrics.
    pub fn new(name: &str, options: QueueOptions<T>) -> Self {
        let names = HashMap::with_hasher(FoldState(options.seed));
        let queue = Queue::interned_elsewhere(options);
        let state = State { queue, waiting: 0, woken: false, timekeeper: false, draining: false };
        WorkQueue(Arc::new(Shared {
            name: name.into(),
            start: Instant::now(),
            names: Mutex::new(names),
            state: Mutex::new(state),
            ready: Notify::new(),
            earlier: Notify::new(),
            drained: Notify::new(),
        }))
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.state.lock().expect("the queue's core does not panic")
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// Queues a key at the default priority.
    pub fn add(&self, key: T) {
        self.add_with(&key, Priority::DEFAULT, Reason::MANUAL);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<T, KeyId, FoldState>> {
        self.0.names.lock().expect("hashing and comparing keys does not panic")
    }

    /// The number of a key, with the state in which it is valid.
    fn number(&self, key: &T) -> (KeyId, MutexGuard<'_, State<T>>) {
        let known = self.names().get(key).copied();
        if let Some(id) = known {
            let state = self.lock();
            if state.queue.knows(id) {
                return (id, state);
            }
        }
        let mut names = self.names();
        let mut state = self.lock();
        for (key, void) in state.queue.take_evicted() {
            if names.get(&key) == Some(&void) {
                names.remove(&key);
            }
        }
        let id = match names.get(key).copied().filter(|id| state.queue.knows(*id)) {
            Some(id) => id,
            None => {
                let id = state.queue.insert(key);
                names.insert(key.clone(), id);
                id
            }
        };
        (id, state)
    }

    /// Queues a key.
    pub fn add_with(&self, key: &T, priority: Priority, reason: Reason) {
        let (id, mut state) = self.number(key);
        let now = self.now();
        state.queue.add_id(id, priority.0, reason, now);
        self.wake(state);
    }

    /// Queues a key after `delay`; the earliest of several counts.
    pub fn add_after(&self, key: &T, delay: Duration, priority: Priority, reason: Reason) {
        let (id, state) = self.number(key);
        self.delay(state, |queue, now| queue.add_id_after(id, delay, priority.0, reason, now));
    }

    /// Queues a key after what the limiter says. Says how long.
    pub fn add_rate_limited(&self, key: &T, priority: Priority, reason: Reason) -> Duration {
        let (id, state) = self.number(key);
        self.delay(state, |queue, now| queue.add_id_rate_limited(id, priority.0, reason, now))
    }

    fn delay<R>(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        add: impl FnOnce(&mut Queue<T>, Duration) -> R,
    ) -> R {
        let before = state.queue.next_due();
        let result = add(&mut state.queue, self.now());
        let hastened = state.queue.next_due() != before;
        if hastened && state.timekeeper {
            self.0.earlier.notify_one();
        }
        self.wake(state);
        result
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        let unkept = state.queue.delayed() > 0 && !state.timekeeper;
        let wake = state.waiting > 0 && !state.woken && (unkept || !state.queue.is_empty());
        state.woken |= wake;
        drop(state);
        if wake {
            self.0.ready.notify_one();
        }
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &T) {
        let known = self.names().get(key).copied();
        if let Some(id) = known {
            self.lock().queue.forget_id(id);
        }
    }

    /// How often the key was rate-limited since it was forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        let known = self.names().get(key).copied();
        known.map_or(0, |id| self.lock().queue.failures_of(id))
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.lock().queue.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is ready, running or delayed.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.queue.drained() && state.queue.delayed() == 0
    }

    /// The next key, as soon as there is one; `None` once the queue is shut down and empty.
    pub async fn get(&self) -> Option<Item<T>> {
        loop {
            let (ready, due, mut waiter) = {
                let now = self.now();
                let mut state = self.lock();
                if let Some(item) = self.take(&mut state, now) {
                    self.wake(state);
                    return Some(item);
                }
                if state.queue.shutting_down() {
                    return None;
                }
                state.waiting += 1;
                let due = state.queue.next_due().filter(|_| !state.timekeeper);
                state.timekeeper |= due.is_some();
                let waiter = Waiter { queue: self, timekeeper: due.is_some(), gave_up: true };
                (self.0.ready.notified(), due, waiter)
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

    /// Gives a key back and takes the next one: [`Item::done`] and [`WorkQueue::get`] in one step.
    pub async fn next(mut finished: Item<T>) -> Option<Item<T>> {
        let queue = finished.queue.take()?;
        {
            let now = queue.now();
            let mut state = queue.lock();
            state.queue.done(finished.id, now);
            if let Some(run) = state.queue.get(now) {
                let key = state.queue.key(run.id).expect("a running key is known").clone();
                queue.wake(state);
                return Some(Item::new(queue, key, run));
            }
            queue.settle(state);
        }
        queue.get().await
    }

    /// The next key if one is ready.
    pub fn try_get(&self) -> Option<Item<T>> {
        let now = self.now();
        let mut state = self.lock();
        self.take(&mut state, now)
    }

    fn take(&self, state: &mut State<T>, now: Duration) -> Option<Item<T>> {
        let run = state.queue.get(now)?;
        let key = state.queue.key(run.id).expect("a running key is known").clone();
        Some(Item::new(self.clone(), key, run))
    }

    /// Refuses adds from now on; workers finish what is queued. Ends the wait of a drain.
    pub fn shut_down(&self) {
        let mut state = self.lock();
        state.queue.shut_down();
        state.draining = false;
        drop(state);
        self.0.ready.notify_waiters();
        self.0.drained.notify_waiters();
    }

    /// As [`WorkQueue::shut_down`], and returns when nothing is queued or running.
    pub async fn shut_down_with_drain(&self) {
        self.shut_down();
        self.lock().draining = true;
        loop {
            let drained = {
                let state = self.lock();
                if !state.draining || state.queue.drained() {
                    return;
                }
                self.0.drained.notified()
            };
            drained.await;
        }
    }

    /// Whether the queue refuses adds.
    pub fn shutting_down(&self) -> bool {
        self.lock().queue.shutting_down()
    }

    pub(crate) fn report(&self) -> QueueReport {
        let now = self.now();
        let mut state = self.lock();
        state.queue.fire_due(now);
        let running = || state.queue.running_since().map(|since| now.saturating_sub(since));
        let report = QueueReport {
            depths: state.queue.depths().collect(),
            stats: state.queue.stats.clone(),
            unfinished: running().sum(),
            longest: running().max().unwrap_or_default(),
        };
        self.wake(state);
        report
    }

    fn done(&self, id: KeyId) {
        let now = self.now();
        let mut state = self.lock();
        state.queue.done(id, now);
        self.settle(state);
    }

    /// After a key was given back: wakes whom it concerns.
    fn settle(&self, state: MutexGuard<'_, State<T>>) {
        let drained = state.draining && state.queue.drained();
        self.wake(state);
        if drained {
            self.0.drained.notify_waiters();
            // Workers that wait for a key that was running learn that none will come.
            self.0.ready.notify_waiters();
        }
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
        // A wake-up that a leaving worker did not use goes to another one, so looking once too often is the worst.
        state.woken = false;
        if self.gave_up {
            self.queue.wake(state);
        }
    }
}

/// A key in the hands of a worker. Dropping it gives the key back ([`Queue::done`]), also when the worker
/// panics.
pub struct Item<T: Clone + Eq + Hash> {
    /// Empty once the key was given back.
    queue: Option<WorkQueue<T>>,
    id: KeyId,
    key: T,
    priority: Priority,
    reasons: Reasons,
    failures: u32,
    waited: Duration,
}

impl<T: Clone + Eq + Hash> Item<T> {
    fn new(queue: WorkQueue<T>, key: T, run: Run) -> Self {
        Item {
            queue: Some(queue),
            id: run.id,
            key,
            priority: Priority(run.priority),
            reasons: run.reasons,
            failures: run.failures,
            waited: run.waited,
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

    /// How long it was ready before a worker took it.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Forgets its failures.
    pub fn forget(&self) {
        if let Some(queue) = &self.queue {
            queue.lock().queue.forget_id(self.id);
        }
    }

    /// Queues it again after `delay`, without looking it up.
    pub fn add_after(&self, delay: Duration, priority: Priority, reason: Reason) {
        if let Some(queue) = &self.queue {
            queue.delay(queue.lock(), |queue, now| {
                queue.add_id_after(self.id, delay, priority.0, reason, now)
            });
        }
    }

    /// Queues it again after what the limiter says, without looking it up. Says how long.
    pub fn add_rate_limited(&self, priority: Priority, reason: Reason) -> Duration {
        let Some(queue) = &self.queue else { return Duration::ZERO };
        queue.delay(queue.lock(), |queue, now| queue.add_id_rate_limited(self.id, priority.0, reason, now))
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
