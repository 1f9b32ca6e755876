//! The async shell around the pure queue: locks, a clock and wake-ups.
//!
//! Two locks, taken in this order: the state (the pure queue: who works) and the inbox (adds on their way there, held for
//! a moment only). Whoever adds hashes the key and leaves it in the inbox; it waits for the workers' lock only when it is
//! thousands of keys ahead of them. Whoever looks at the state takes in first what the inbox holds, so that it sees every
//! add that has returned.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Priority;
use super::core::{Queue, QueueOptions, nanos};
use super::inbox::{Add, Added, Inbox};
use super::keys::hash;
use super::line::UNKNOWN;
use super::reason::Reason;
use super::slots::KeyId;
use super::stats::Stats;
use crate::hash::FoldState;

/// A work queue that any number of producers and workers share. Cheap to clone.
///
/// Take a key whose clone is cheap, as [`Key`](crate::Key) is: it is cloned by who adds
/// it by reference, since whether the queue knows it is found out later, and by who takes it. Then the add of a known key
/// allocates nothing; with a `String` each add does.
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
pub struct WorkQueue<T>(pub(super) Arc<Shared<T>>);

pub(super) struct Shared<T> {
    pub(super) name: Arc<str>,
    pub(super) start: Instant,
    pub(super) hasher: FoldState,
    /// The time of every step is read: somebody measures, or keys age because they are not all alike.
    pub(super) timed: AtomicBool,
    pub(super) inbox: Inbox<T>,
    pub(super) state: Mutex<State<T>>,
    pub(super) ready: Notify,
    pub(super) earlier: Notify,
    pub(super) drained: Notify,
}

pub(super) struct State<T> {
    pub(super) queue: Queue<T>,
    /// As in the inbox; both change with this locked.
    pub(super) waiting: u32,
    pub(super) timekeeper: bool,
    /// Somebody waits for a drain.
    pub(super) draining: bool,
    /// How often the wait of all drains before it was ended.
    pub(super) drains_ended: u16,
    /// Empty; it changes places with the inbox's.
    pub(super) adds: Vec<Add<T>>,
}

/// The numbers that a scrape reads of a queue.
#[derive(Clone, Debug)]
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
        let queue = Queue::new(options);
        WorkQueue(Arc::new(Shared {
            name: name.into(),
            start: Instant::now(),
            hasher: queue.keys.hasher,
            timed: AtomicBool::new(false),
            inbox: Inbox::new(),
            state: Mutex::new(State {
                queue,
                waiting: 0,
                timekeeper: false,
                draining: false,
                drains_ended: 0,
                adds: Vec::new(),
            }),
            ready: Notify::new(),
            earlier: Notify::new(),
            drained: Notify::new(),
        }))
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The state with every add in it that has returned.
    pub(super) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.up_to_date(self.0.state.lock().expect("the queue's core does not panic"))
    }

    /// As [`WorkQueue::lock`], unless another has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, State<T>>> {
        match self.0.state.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            tried => Some(self.up_to_date(tried.expect("the queue's core does not panic"))),
        }
    }

    /// Takes what the inbox holds into the queue.
    fn up_to_date<'a>(&self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        if self.0.inbox.pending() {
            let State { queue, adds, .. } = &mut *state;
            self.0.inbox.take(adds);
            queue.keys.warm(adds.iter().map(|add| add.hash));
            for Add { key, hash, priority, reason, at } in adds.drain(..) {
                queue.add_hashed(key, hash, priority, reason, at);
            }
        }
        state
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    fn timed(&self) -> bool {
        self.0.timed.load(Ordering::Relaxed)
    }

    /// The time if anything depends on it.
    pub(super) fn time_for(&self, queue: &Queue<T>) -> u64 {
        if self.timed() || queue.asks_for_the_time() { nanos(self.now()) } else { UNKNOWN }
    }

    /// With a second priority keys age: whoever comes from now on says when.
    fn prepare_for(&self, priority: Priority) {
        if priority != Priority::DEFAULT && !self.timed() {
            self.measure();
        }
    }

    /// Measures from now on how long keys wait and are worked on.
    pub(crate) fn measure(&self) {
        self.0.timed.store(true, Ordering::Relaxed);
    }

    /// Queues a key at the default priority.
    pub fn add(&self, key: T) {
        self.add_owned(key, Priority::DEFAULT, Reason::MANUAL);
    }

    /// Queues a key, which is cloned.
    pub fn add_with(&self, key: &T, priority: Priority, reason: Reason) {
        self.add_owned(key.clone(), priority, reason);
    }

    fn add_owned(&self, key: T, priority: Priority, reason: Reason) {
        self.prepare_for(priority);
        let at = if self.timed() { nanos(self.now()) } else { UNKNOWN };
        let hash = hash(self.0.hasher, &key);
        match self.0.inbox.push(Add { key, hash, priority: priority.0, reason, at }) {
            Added::Nothing => {}
            Added::Wake => self.0.ready.notify_one(),
            Added::Batch => drop(self.try_lock()),
            Added::Full => drop(self.lock()),
        }
    }

    /// Queues a key after `delay`; the earliest of several counts, for the reasons of all.
    pub fn add_after(&self, key: &T, delay: Duration, priority: Priority, reason: Reason) {
        self.delay(priority, |queue, now| queue.add_after(key, delay, priority.0, reason, now));
    }

    /// Queues a key after what the limiter says. Says how long.
    pub fn add_rate_limited(&self, key: &T, priority: Priority, reason: Reason) -> Duration {
        self.delay(priority, |queue, now| queue.add_rate_limited(key, priority.0, reason, now))
    }

    pub(super) fn delay<R>(&self, priority: Priority, add: impl FnOnce(&mut Queue<T>, Duration) -> R) -> R {
        self.prepare_for(priority);
        let mut state = self.lock();
        let before = state.queue.next_due();
        let result = add(&mut state.queue, self.now());
        let hastened = state.queue.next_due() != before;
        if hastened && state.timekeeper {
            self.0.earlier.notify_one();
        }
        self.wake(state);
        result
    }

    /// Wakes a waiting worker if there is something for it.
    pub(super) fn wake(&self, state: MutexGuard<'_, State<T>>) {
        let unkept = state.queue.delayed() > 0 && !state.timekeeper;
        let needed = state.waiting > 0 && (unkept || !state.queue.is_empty());
        let wake = needed && self.0.inbox.claim_waking();
        drop(state);
        if wake {
            self.0.ready.notify_one();
        }
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &T) {
        self.lock().queue.forget(key);
    }

    pub(super) fn forget_id(&self, id: KeyId) {
        self.lock().queue.forget_id(id);
    }

    /// How often the key was rate-limited since it was forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.lock().queue.num_requeues(key)
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

    /// Refuses adds from now on; workers finish what is queued. Ends the wait of every drain.
    pub fn shut_down(&self) {
        let mut state = self.refuse_adds();
        state.draining = false;
        state.drains_ended = state.drains_ended.wrapping_add(1);
        drop(state);
        self.0.ready.notify_waiters();
        self.0.drained.notify_waiters();
    }

    fn refuse_adds(&self) -> MutexGuard<'_, State<T>> {
        self.0.inbox.close();
        let mut state = self.lock();
        state.queue.shut_down();
        state
    }

    /// As [`WorkQueue::shut_down`], and returns when nothing is queued or running. Any number may wait for that; only a
    /// later `shut_down` ends their wait.
    ///
    /// Dropping the future ends the wait; the queue stays shut down.
    pub async fn shut_down_with_drain(&self) {
        let ended = {
            let mut state = self.refuse_adds();
            state.draining = true;
            state.drains_ended
        };
        self.0.ready.notify_waiters();
        loop {
            let drained = {
                let state = self.lock();
                if state.drains_ended != ended || state.queue.drained() {
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
        let mut state = self.lock();
        let now = self.now();
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

    pub(super) fn done(&self, id: KeyId) {
        let mut state = self.lock();
        let now = self.time_for(&state.queue);
        state.queue.finish(id, now);
        self.wake_after_finish(state);
    }

    /// After a key was given back: wakes whom it concerns.
    pub(super) fn wake_after_finish(&self, state: MutexGuard<'_, State<T>>) {
        let drained = state.draining && state.queue.drained();
        self.wake(state);
        if drained {
            self.0.drained.notify_waiters();
            // Workers that wait for a key that was running learn that none will come.
            self.0.ready.notify_waiters();
        }
    }
}
