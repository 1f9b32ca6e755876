//! The queue as plain data: no clock, no locks, no tasks.

use std::hash::Hash;
use std::time::Duration;

use super::delay::{Delays, NOWHERE};
use super::keys::{Keys, NEAR, Rest};
use super::limiter::RateLimiter;
use super::line::{Entry, UNKNOWN};
use super::ready::Ready;
use super::reason::{Reason, Reasons};
use super::slots::KeyId;
use super::stats::Stats;

/// How long a key of lower priority waits before it is given a share of the work.
pub const AGEING: Duration = Duration::from_secs(10);

/// How a queue behaves.
#[derive(Debug)]
#[non_exhaustive]
pub struct QueueOptions<T> {
    /// How long failing keys wait.
    pub limiter: RateLimiter,
    /// Which keys share one flow; flows of equal priority take turns. `None`: one flow, strictly first in,
    /// first out.
    pub fairness: Option<fn(&T) -> u64>,
    /// See [`AGEING`].
    pub ageing: Duration,
    /// How many keys are remembered that are neither queued, running, delayed nor failing, for who adds them again by
    /// number. The one that was idle longest is forgotten first. None are by default: a key that is forgotten leaves
    /// its place to the next one, so that a short queue stays in the processor's cache whatever the number of keys.
    pub idle_keys: usize,
    /// Seed of the interner's hash.
    pub seed: u64,
}

impl<T> QueueOptions<T> {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl<T> Default for QueueOptions<T> {
    fn default() -> Self {
        QueueOptions {
            limiter: RateLimiter::default(),
            fairness: None,
            ageing: AGEING,
            idle_keys: 0,
            seed: 0x5e7b_0147,
        }
    }
}

/// One run of a key: what [`Queue::get`] hands out.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The key, as a number.
    pub id: KeyId,
    /// The priority it was queued with.
    pub priority: i32,
    /// Why it was queued.
    pub reasons: Reasons,
    /// How often it was rate-limited since it was last forgotten.
    pub failures: u32,
    /// How long it was from its add, while it ran before or not, to this run.
    pub waited: Duration,
}

/// A key that is with a worker.
#[derive(Clone, Copy, Debug)]
struct Running {
    place: u32,
    since: u64,
    /// When it was added again, if it was.
    again: u64,
}

/// From `since` to `now`, where both are known.
fn between(since: u64, now: u64) -> Option<Duration> {
    (since != UNKNOWN && now != UNKNOWN).then(|| Duration::from_nanos(now.saturating_sub(since)))
}

/// So many of the keys that are next are brought near at a time.
const AHEAD: u32 = 16;

/// The pure work queue. See the [module's](super) contract. Times are durations since any fixed start and must
/// not run backwards.
#[derive(Debug)]
pub struct Queue<T> {
    pub(super) keys: Keys<T>,
    ready: Ready,
    delays: Delays<u32>,
    processing: Vec<Running>,
    /// Gets until the next keys are brought near.
    until_far: u32,
    limiter: RateLimiter,
    shutting_down: bool,
    pub(super) stats: Stats,
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(UNKNOWN - 1)
}

impl<T: Clone + Eq + Hash> Queue<T> {
    /// An empty queue.
    pub fn new(options: QueueOptions<T>) -> Self {
        Queue {
            keys: Keys::new(options.seed, options.fairness, options.idle_keys),
            ready: Ready::new(nanos(options.ageing), options.fairness.is_some()),
            delays: Delays::new(),
            processing: Vec::new(),
            until_far: 0,
            limiter: options.limiter,
            shutting_down: false,
            stats: Stats::default(),
        }
    }

    /// The number of `key`; makes one if the queue does not know it. It is good until the key is forgotten, which is at
    /// once for a key with nothing to do unless [`QueueOptions::idle_keys`] says otherwise.
    pub fn intern(&mut self, key: &T) -> KeyId {
        let place = self.keys.place(key);
        let id = self.keys.slots.id(place);
        self.rest(place);
        id
    }

    /// The key behind a number that [`Queue::get`] or [`Queue::intern`] gave.
    pub fn key(&self, id: KeyId) -> Option<&T> {
        self.keys.slots.place(id).map(|place| self.keys.slots[place].key())
    }

    /// Queues a key. A key that was queued already keeps its place, unless `priority` is higher.
    pub fn add(&mut self, key: &T, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down {
            return;
        }
        let place = self.keys.place(key);
        self.add_at(place, priority, reason, nanos(now));
    }

    /// As [`Queue::add`], for who has hashed the key already and has no more use for it. The time may be [`UNKNOWN`].
    pub(super) fn add_hashed(&mut self, key: T, hash: u32, priority: i32, reason: Reason, now: u64) {
        if self.shutting_down {
            return;
        }
        let place = self.keys.place_of(key, hash);
        self.add_at(place, priority, reason, now);
    }

    /// As [`Queue::add`], by number. The number of a key that was forgotten adds nothing.
    pub fn add_id(&mut self, id: KeyId, priority: i32, reason: Reason, now: Duration) {
        if let Some(place) = self.keys.slots.place(id).filter(|_| !self.shutting_down) {
            self.add_at(place, priority, reason, nanos(now));
        }
    }

    fn add_at(&mut self, place: u32, priority: i32, reason: Reason, now: u64) {
        self.add_noting(place, priority, now, |reasons| reasons.note(reason));
    }

    fn add_noting(&mut self, place: u32, priority: i32, now: u64, note: impl FnOnce(&mut Reasons)) {
        let slot = &mut self.keys.slots[place];
        note(&mut slot.reasons);
        let known = slot.priority;
        if slot.dirty && priority <= known {
            return;
        }
        slot.priority = priority;
        let queued = std::mem::replace(&mut slot.dirty, true);
        self.stats.adds += u64::from(!queued);
        if slot.processing {
            if !queued {
                self.processing[slot.stands_at as usize].again = now;
            }
            return;
        }
        // The wait is measured from the first add, whatever the key's priority became since.
        let since = if queued { self.ready.remove(&mut self.keys.slots, place, known) } else { now };
        self.ready.push(&mut self.keys.slots, place, priority, since);
    }

    /// Queues a key after `delay`. Of several delays of one key the earliest end counts, for the reasons of all.
    pub fn add_after(&mut self, key: &T, delay: Duration, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down {
            return;
        }
        let place = self.keys.place(key);
        self.add_at_after(place, delay, priority, reason, now);
    }

    /// As [`Queue::add_after`], by number.
    pub fn add_id_after(&mut self, id: KeyId, delay: Duration, priority: i32, reason: Reason, now: Duration) {
        if let Some(place) = self.keys.slots.place(id).filter(|_| !self.shutting_down) {
            self.add_at_after(place, delay, priority, reason, now);
        }
    }

    fn add_at_after(&mut self, place: u32, delay: Duration, priority: i32, reason: Reason, now: Duration) {
        self.stats.retries += 1;
        if delay.is_zero() {
            self.add_at(place, priority, reason, nanos(now));
            return;
        }
        let at = nanos(now.saturating_add(delay));
        let slots = &mut self.keys.slots;
        let waits_at = slots[place].delayed_at;
        let moved = |place, waits_at| slots[place].delayed_at = waits_at;
        if waits_at == NOWHERE {
            self.delays.push(at, place, priority, reason, moved);
        } else {
            self.delays.join(waits_at, at, priority, reason, moved);
        }
    }

    /// Queues a key after what the limiter says, and counts the failure. Says how long.
    pub fn add_rate_limited(&mut self, key: &T, priority: i32, reason: Reason, now: Duration) -> Duration {
        if self.shutting_down {
            return Duration::ZERO;
        }
        let place = self.keys.place(key);
        self.add_at_rate_limited(place, priority, reason, now)
    }

    /// As [`Queue::add_rate_limited`], by number.
    pub fn add_id_rate_limited(
        &mut self,
        id: KeyId,
        priority: i32,
        reason: Reason,
        now: Duration,
    ) -> Duration {
        match self.keys.slots.place(id).filter(|_| !self.shutting_down) {
            Some(place) => self.add_at_rate_limited(place, priority, reason, now),
            None => Duration::ZERO,
        }
    }

    fn add_at_rate_limited(&mut self, place: u32, priority: i32, reason: Reason, now: Duration) -> Duration {
        let slot = &mut self.keys.slots[place];
        let delay = self.limiter.when(slot.failures, now);
        slot.failures = slot.failures.saturating_add(1);
        self.add_at_after(place, delay, priority, reason, now);
        delay
    }

    /// Forgets the failures of a key: its next delay is the first one again.
    pub fn forget(&mut self, key: &T) {
        if let Some(place) = self.keys.find(key) {
            self.keys.slots[place].failures = 0;
            self.rest(place);
        }
    }

    /// As [`Queue::forget`], by number.
    pub fn forget_id(&mut self, id: KeyId) {
        if let Some(place) = self.keys.slots.place(id) {
            self.keys.slots[place].failures = 0;
            self.rest(place);
        }
    }

    /// How often the key was rate-limited since it was forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.keys.find(key).map_or(0, |place| self.keys.slots[place].failures)
    }

    /// Queues every delayed key whose time has come.
    pub fn fire_due(&mut self, now: Duration) {
        if self.delays.len() > 0 {
            self.fire_until(nanos(now));
        }
    }

    fn fire_until(&mut self, now: u64) {
        while self.delays.earliest().is_some_and(|at| at <= now) {
            let slots = &mut self.keys.slots;
            let due = self.delays.pop(|place, waits_at| slots[place].delayed_at = waits_at);
            let due = due.expect("there is an earliest");
            self.add_noting(due.id, due.priority, due.at, |reasons| reasons.join(&due.reasons));
        }
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.delays.earliest().map(Duration::from_nanos)
    }

    /// Whether what [`Queue::take`] and [`Queue::finish`] do depends on the time though all keys are alike: some may be
    /// due, or nothing is left to do, so that room may be given back.
    pub(super) fn asks_for_the_time(&self) -> bool {
        self.ready.len() == 0 || self.delays.len() > 0
    }

    /// Takes the next key. It stays with its taker until [`Queue::done`].
    pub fn get(&mut self, now: Duration) -> Option<Run> {
        self.run_next(nanos(now))
    }

    /// As [`Queue::get`]. The time may be [`UNKNOWN`], unless the queue [asks for it](Queue::asks_for_the_time).
    pub(super) fn run_next(&mut self, now: u64) -> Option<Run> {
        let (place, waited) = self.take(now)?;
        let id = self.keys.slots.id(place);
        let slot = &mut self.keys.slots[place];
        let reasons = std::mem::take(&mut slot.reasons);
        let waited = waited.unwrap_or_default();
        Some(Run { id, priority: slot.priority, reasons, failures: slot.failures, waited })
    }

    /// As [`Queue::run_next`], for who takes the reasons out of the key's slot: where it lies and how long it was ready.
    pub(super) fn take(&mut self, now: u64) -> Option<(u32, Option<Duration>)> {
        if now != UNKNOWN {
            self.keys.tick(now);
            self.fire_until(now);
        }
        self.approach();
        let Entry { place, since } = self.ready.pop(&mut self.keys.slots, now)?;
        let slot = &mut self.keys.slots[place];
        slot.dirty = false;
        slot.processing = true;
        slot.stands_at = self.processing.len() as u32;
        self.processing.push(Running { place, since: now, again: UNKNOWN });
        let waited = between(since, now);
        if let Some(waited) = waited {
            self.stats.waited.observe(waited);
        }
        Some((place, waited))
    }

    /// Brings near what the next gets will look at. Of a long queue each key is far away, and the processor waits for
    /// many of them together here, for one after the other later.
    fn approach(&mut self) {
        if self.until_far > 0 {
            self.until_far -= 1;
        } else if self.ready.len() > NEAR {
            self.until_far = AHEAD - 1;
            self.keys.approach(self.ready.ahead(AHEAD as usize));
        }
    }

    /// Gives a key back. If it was added meanwhile it is queued again, once. Says whether it was.
    pub fn done(&mut self, id: KeyId, now: Duration) -> bool {
        self.finish(id, nanos(now))
    }

    /// As [`Queue::done`]. The time may be [`UNKNOWN`], unless the queue [asks for it](Queue::asks_for_the_time).
    pub(super) fn finish(&mut self, id: KeyId, now: u64) -> bool {
        let Some(place) = self.keys.slots.place(id) else { return false };
        let slot = &mut self.keys.slots[place];
        if !slot.processing {
            return false;
        }
        slot.processing = false;
        let ran_at = slot.stands_at as usize;
        let ran = self.processing.swap_remove(ran_at);
        if now != UNKNOWN {
            self.keys.tick(now);
        }
        if let Some(worked) = between(ran.since, now) {
            self.stats.worked.observe(worked);
        }
        if let Some(moved) = self.processing.get(ran_at) {
            self.keys.slots[moved.place].stands_at = ran_at as u32;
        }
        let slot = &self.keys.slots[place];
        if slot.dirty {
            let priority = slot.priority;
            self.ready.push(&mut self.keys.slots, place, priority, ran.again);
            return true;
        }
        self.rest(place);
        false
    }

    /// After something for a key has ended.
    fn rest(&mut self, place: u32) {
        if self.keys.rest(place) == Rest::RoomGivenBack {
            self.ready.clear();
        }
    }

    /// Refuses adds from now on and drops what is delayed. What is queued is still handed out.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        let slots = &mut self.keys.slots;
        let mut freed = Vec::new();
        self.delays.clear(|place, waits_at| {
            slots[place].delayed_at = waits_at;
            freed.push(place);
        });
        for place in freed {
            // The rest of another key may have forgotten this one, which was among the idle keys already.
            if self.keys.slots[place].known().is_some() {
                self.rest(place);
            }
        }
    }

    /// Whether [`Queue::shut_down`] was called.
    pub fn shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.ready.len() == 0
    }

    /// How many keys wait for their time.
    pub fn delayed(&self) -> usize {
        self.delays.len()
    }

    /// How many keys are with a worker.
    pub fn processing(&self) -> usize {
        self.processing.len()
    }

    /// How many keys the queue knows.
    pub fn known(&self) -> usize {
        self.keys.slots.len()
    }

    /// Whether nothing is queued or running: what a drain waits for.
    pub fn drained(&self) -> bool {
        self.processing.is_empty() && self.ready.len() == 0
    }

    pub(super) fn depths(&self) -> impl Iterator<Item = (i32, usize)> + '_ {
        self.ready.depths()
    }

    pub(super) fn running_since(&self) -> impl Iterator<Item = Duration> + '_ {
        let known = self.processing.iter().filter(|running| running.since != UNKNOWN);
        known.map(|running| Duration::from_nanos(running.since))
    }
}
