//! The async shell around the pure queue: locks, a clock and wake-ups.
//!
//! Three locks, taken in this order: the names (who adds looks a key's number up), the state (the pure queue: who
//! works), the inbox (adds on their way from one to the other, held for a moment only). Whoever adds never waits for
//! the workers' lock and they never for a lookup. Whoever looks at the state takes in first what the inbox holds, so
//! that it sees every add that has returned.

use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Priority;
use super::core::{KeyId, Queue, QueueOptions};
use super::hash::FoldState;
use super::inbox::{Add, INBOX, Inbox, Names, RESERVE};
use super::item::Item;
use super::reason::Reason;
use super::stats::Stats;
use super::table::Table;

/// How often a worker that has just finished a key looks for the next add before it goes to sleep: about as long as
/// waking it would take.
const LINGER: usize = 64;

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

pub(super) struct Shared<T> {
    name: Arc<str>,
    start: Instant,
    names: Mutex<Names<T>>,
    state: Mutex<State<T>>,
    inbox: Mutex<Inbox<T>>,
    /// The inbox holds something. Written with the inbox locked.
    pending: AtomicBool,
    /// A worker was woken and has not looked yet. Until it does nobody else is: it wakes the next one itself if there
    /// is more than one key. Written with the inbox locked, cleared with the state locked too.
    woken: AtomicBool,
    ready: Notify,
    earlier: Notify,
    drained: Notify,
}

struct State<T> {
    queue: Queue<T>,
    /// As in the inbox; both change with both locked.
    waiting: usize,
    timekeeper: bool,
    draining: bool,
    /// Emptied; they change places with the inbox's.
    adds: Vec<Add>,
    fresh: Vec<(KeyId, T)>,
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
        let ids = Table::new(FoldState(options.seed));
        let state = State {
            queue: Queue::interned_elsewhere(options),
            waiting: 0,
            timekeeper: false,
            draining: false,
            adds: Vec::new(),
            fresh: Vec::new(),
        };
        WorkQueue(Arc::new(Shared {
            name: name.into(),
            start: Instant::now(),
            names: Mutex::new(Names { ids, reserve: Vec::new() }),
            state: Mutex::new(state),
            inbox: Mutex::new(Inbox::new()),
            pending: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            ready: Notify::new(),
            earlier: Notify::new(),
            drained: Notify::new(),
        }))
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn names(&self) -> MutexGuard<'_, Names<T>> {
        self.0.names.lock().expect("hashing and comparing keys does not panic")
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox<T>> {
        self.0.inbox.lock().expect("no holder of this lock panics")
    }

    /// The state with every add in it that has returned.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        let mut state = self.0.state.lock().expect("the queue's core does not panic");
        if self.0.pending.load(Ordering::Acquire) {
            self.collect(&mut state);
        }
        state
    }

    /// Takes what the inbox holds into the queue.
    fn collect(&self, state: &mut State<T>) {
        let State { queue, adds, fresh, .. } = state;
        {
            let mut inbox = self.inbox();
            std::mem::swap(&mut inbox.adds, adds);
            std::mem::swap(&mut inbox.fresh, fresh);
            self.0.pending.store(false, Ordering::Relaxed);
        }
        for (id, key) in fresh.drain(..) {
            queue.fill(id, key);
        }
        for add in adds.drain(..) {
            queue.add_id(add.id, add.priority, add.reason, add.at);
        }
    }

    fn now(&self) -> Duration {
        self.0.start.elapsed()
    }

    /// Queues a key at the default priority.
    pub fn add(&self, key: T) {
        self.add_with(&key, Priority::DEFAULT, Reason::MANUAL);
    }

    /// The number of a key, valid while the names are locked; `None` for an unknown key of a queue that is shut down.
    fn number(&self, names: &mut Names<T>, key: &T) -> Option<KeyId> {
        if let Some(id) = names.ids.get(key) {
            return Some(id);
        }
        if names.reserve.is_empty() {
            let mut state = self.lock();
            state.queue.forget_idle(|key| {
                names.ids.remove(&key);
            });
            let more = state.queue.known().clamp(1, RESERVE);
            names.reserve.extend((0..more).map(|_| state.queue.reserve()));
            // Taken from the end: keys that come one after the other lie side by side.
            names.reserve.reverse();
        }
        let mut inbox = self.inbox();
        if inbox.closed {
            return None;
        }
        let id = names.reserve.pop()?;
        inbox.fresh.push((id, key.clone()));
        self.0.pending.store(true, Ordering::Release);
        drop(inbox);
        names.ids.insert(key.clone(), id);
        Some(id)
    }

    /// Queues a key.
    pub fn add_with(&self, key: &T, priority: Priority, reason: Reason) {
        let at = self.now();
        let mut names = self.names();
        let Some(id) = self.number(&mut names, key) else { return };
        let (wake, full) = {
            let mut inbox = self.inbox();
            if inbox.closed {
                return;
            }
            inbox.adds.push(Add { id, priority: priority.0, reason, at });
            if inbox.adds.len() == 1 {
                self.0.pending.store(true, Ordering::Release);
            }
            (inbox.waiting > 0 && self.claim_waking(), inbox.adds.len() >= INBOX)
        };
        drop(names);
        if wake {
            self.0.ready.notify_one();
        } else if full {
            drop(self.lock());
        }
    }

    /// Whether the caller, who holds the inbox and knows of a waiting worker, is to wake one.
    fn claim_waking(&self) -> bool {
        let wake = !self.0.woken.load(Ordering::Relaxed);
        if wake {
            self.0.woken.store(true, Ordering::Relaxed);
        }
        wake
    }

    /// Queues a key after `delay`; the earliest of several counts.
    pub fn add_after(&self, key: &T, delay: Duration, priority: Priority, reason: Reason) {
        let mut names = self.names();
        let Some(id) = self.number(&mut names, key) else { return };
        self.delay(|queue, now| queue.add_id_after(id, delay, priority.0, reason, now));
    }

    /// Queues a key after what the limiter says. Says how long.
    pub fn add_rate_limited(&self, key: &T, priority: Priority, reason: Reason) -> Duration {
        let mut names = self.names();
        let Some(id) = self.number(&mut names, key) else { return Duration::ZERO };
        self.delay(|queue, now| queue.add_id_rate_limited(id, priority.0, reason, now))
    }

    pub(super) fn delay<R>(&self, add: impl FnOnce(&mut Queue<T>, Duration) -> R) -> R {
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
    fn wake(&self, state: MutexGuard<'_, State<T>>) {
        let unkept = state.queue.delayed() > 0 && !state.timekeeper;
        let needed = state.waiting > 0 && (unkept || !state.queue.is_empty());
        if !needed || self.0.woken.load(Ordering::Relaxed) {
            return;
        }
        let wake = {
            let _inbox = self.inbox();
            self.claim_waking()
        };
        drop(state);
        if wake {
            self.0.ready.notify_one();
        }
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &T) {
        let names = self.names();
        if let Some(id) = names.ids.get(key) {
            self.forget_id(id);
        }
    }

    pub(super) fn forget_id(&self, id: KeyId) {
        self.lock().queue.forget_id(id);
    }

    /// How often the key was rate-limited since it was forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        let names = self.names();
        names.ids.get(key).map_or(0, |id| self.lock().queue.failures_of(id))
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
        let mut inbox = self.inbox();
        if !inbox.adds.is_empty() {
            return None;
        }
        inbox.waiting += 1;
        state.waiting += 1;
        let timekeeper = state.queue.delayed() > 0 && !state.timekeeper;
        state.timekeeper |= timekeeper;
        Some(Waiter { queue: self, timekeeper, gave_up: true })
    }

    /// Gives a key back and takes the next one: [`Item::done`] and [`WorkQueue::get`] in one step.
    pub async fn next(mut finished: Item<T>) -> Option<Item<T>> {
        let queue = finished.queue.take()?;
        {
            let mut state = queue.lock();
            let now = queue.now();
            state.queue.done(finished.id, now);
            if let Some(run) = state.queue.get(now) {
                let key = state.queue.key(run.id).expect("a running key is known").clone();
                queue.wake(state);
                return Some(Item::new(queue, key, &run));
            }
            queue.settle(state);
        }
        queue.linger();
        queue.get().await
    }

    /// Looks for an add that is about to come, where another thread may be making one.
    fn linger(&self) {
        let alone =
            Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::CurrentThread);
        if alone {
            return;
        }
        for _ in 0..LINGER {
            if self.0.pending.load(Ordering::Relaxed) {
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
        let run = state.queue.get(self.now())?;
        let key = state.queue.key(run.id).expect("a running key is known").clone();
        Some(Item::new(self.clone(), key, &run))
    }

    /// Refuses adds from now on; workers finish what is queued. Ends the wait of a drain.
    pub fn shut_down(&self) {
        self.inbox().closed = true;
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
        state.queue.done(id, self.now());
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
        {
            let mut inbox = self.queue.inbox();
            inbox.waiting -= 1;
            // A wake-up that a leaving worker did not use goes to another one, so looking once too often is the worst.
            self.queue.0.woken.store(false, Ordering::Relaxed);
        }
        if self.gave_up {
            self.queue.wake(state);
        }
    }
}
