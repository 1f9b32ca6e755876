//! The queue as plain data: no clock, no locks, no tasks.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use slotmap::SlotMap;

use super::delay::{Delays, NOWHERE};
use super::hash::FoldState;
use super::limiter::RateLimiter;
use super::ready::{Links, Ready};
use super::reason::{Reason, Reasons};
use super::stats::Stats;
use super::table::Table;

slotmap::new_key_type! {
    /// A key that the queue knows, as a number.
    pub struct KeyId;
}

/// How many keys the queue remembers that are neither queued, running, delayed nor failing. The one that was
/// idle longest is forgotten first; adding it again costs one insertion.
pub const IDLE_KEYS: usize = 262_144;

/// How long a key of lower priority waits before it is given a share of the work.
pub const AGEING: Duration = Duration::from_secs(10);

/// How a queue behaves.
#[derive(Debug)]
pub struct QueueOptions<T> {
    /// How long failing keys wait.
    pub limiter: RateLimiter,
    /// Which keys share one flow; flows of equal priority take turns. `None`: one flow, strictly first in,
    /// first out.
    pub fairness: Option<fn(&T) -> u64>,
    /// See [`AGEING`].
    pub ageing: Duration,
    /// See [`IDLE_KEYS`].
    pub idle_keys: usize,
    /// Seed of the interner's hash.
    pub seed: u64,
}

impl<T> Default for QueueOptions<T> {
    fn default() -> Self {
        QueueOptions {
            limiter: RateLimiter::default(),
            fairness: None,
            ageing: AGEING,
            idle_keys: IDLE_KEYS,
            seed: 0x5e7b_0147,
        }
    }
}

/// What the queue knows of one key.
#[derive(Debug)]
pub(super) struct Slot<T> {
    /// Nothing while the number is reserved for a key that is still to come.
    key: Option<T>,
    pub(super) links: Links,
    pub(super) flow: u32,
    priority: i32,
    failures: u32,
    delayed_at: u32,
    delayed_priority: i32,
    delayed_reason: Reason,
    reasons: Reasons,
    running_since: u64,
    running_place: u32,
    dirty: bool,
    processing: bool,
    in_idle: bool,
}

impl<T> Slot<T> {
    fn idle(&self) -> bool {
        !self.dirty && !self.processing && self.delayed_at == NOWHERE && self.failures == 0
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
    /// How long it was ready before this run.
    pub waited: Duration,
}

/// The pure work queue. See the [module's](super) contract. Times are durations since any fixed start and must
/// not run backwards.
#[derive(Debug)]
pub struct Queue<T> {
    slots: SlotMap<KeyId, Slot<T>>,
    ids: Table<T>,
    flows: HashMap<u64, (u32, u32), FoldState>,
    free_flows: Vec<u32>,
    flow_hashes: Vec<u64>,
    ready: Ready,
    delays: Delays<KeyId>,
    processing: Vec<KeyId>,
    idle: VecDeque<KeyId>,
    idle_keys: usize,
    /// Numbers without a key yet.
    reserved: usize,
    /// Somebody else finds numbers by key; keys are forgotten when that one says so.
    interned_elsewhere: bool,
    limiter: RateLimiter,
    fairness: Option<fn(&T) -> u64>,
    shutting_down: bool,
    pub(super) stats: Stats,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<T: Clone + Eq + Hash> Queue<T> {
    /// An empty queue.
    pub fn new(options: QueueOptions<T>) -> Self {
        let state = FoldState(options.seed);
        Queue {
            slots: SlotMap::with_key(),
            ids: Table::new(state),
            flows: HashMap::with_hasher(state),
            free_flows: Vec::new(),
            flow_hashes: Vec::new(),
            ready: Ready::new(nanos(options.ageing)),
            delays: Delays::new(),
            processing: Vec::new(),
            idle: VecDeque::new(),
            idle_keys: options.idle_keys,
            reserved: 0,
            interned_elsewhere: false,
            limiter: options.limiter,
            fairness: options.fairness,
            shutting_down: false,
            stats: Stats::default(),
        }
    }

    pub(super) fn interned_elsewhere(options: QueueOptions<T>) -> Self {
        Queue { interned_elsewhere: true, ..Queue::new(options) }
    }

    /// The number of `key`; makes one if the queue does not know it.
    pub fn intern(&mut self, key: &T) -> KeyId {
        if let Some(id) = self.ids.get(key) {
            return id;
        }
        let id = self.reserve();
        self.fill(id, key.clone());
        self.ids.insert(key.clone(), id);
        id
    }

    /// A number for a key that is still to come.
    pub(super) fn reserve(&mut self) -> KeyId {
        self.reserved += 1;
        self.slots.insert(Slot {
            key: None,
            links: Links::default(),
            flow: 0,
            priority: 0,
            failures: 0,
            delayed_at: NOWHERE,
            delayed_priority: 0,
            delayed_reason: Reason::MANUAL,
            reasons: Reasons::default(),
            running_since: 0,
            running_place: 0,
            dirty: false,
            processing: false,
            in_idle: false,
        })
    }

    /// The key of a reserved number.
    pub(super) fn fill(&mut self, id: KeyId, key: T) {
        let flow = self.join_flow(self.fairness.map_or(0, |fairness| fairness(&key)));
        if let Some(slot) = self.slots.get_mut(id) {
            self.reserved -= 1;
            slot.flow = flow;
            slot.key = Some(key);
        }
    }

    /// Forgets idle keys beyond the bound, for who interns keys elsewhere, and tells which.
    pub(super) fn forget_idle(&mut self, mut forgotten: impl FnMut(T)) {
        while self.idle.len() > self.idle_keys {
            if let Some(key) = self.forget_oldest() {
                forgotten(key);
            }
        }
    }

    fn join_flow(&mut self, hash: u64) -> u32 {
        if let Some((flow, members)) = self.flows.get_mut(&hash) {
            *members += 1;
            return *flow;
        }
        let flow = self.free_flows.pop().unwrap_or_else(|| {
            self.flow_hashes.push(0);
            (self.flow_hashes.len() - 1) as u32
        });
        self.flow_hashes[flow as usize] = hash;
        self.flows.insert(hash, (flow, 1));
        flow
    }

    /// The key behind a number that [`Queue::get`] or [`Queue::intern`] gave.
    pub fn key(&self, id: KeyId) -> Option<&T> {
        self.slots.get(id).and_then(|slot| slot.key.as_ref())
    }

    /// Queues a key by its number. A key that was queued already keeps its place, unless `priority` is higher.
    pub fn add_id(&mut self, id: KeyId, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down {
            return;
        }
        self.stats.adds += 1;
        self.mark_dirty(id, priority, reason, nanos(now));
    }

    fn mark_dirty(&mut self, id: KeyId, priority: i32, reason: Reason, now: u64) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.reasons.note(reason);
        if slot.dirty {
            if priority > slot.priority {
                slot.priority = priority;
                if !slot.processing {
                    let since = slot.links.since;
                    self.ready.remove(&mut self.slots, id);
                    self.ready.push(&mut self.slots, id, priority, now);
                    // The wait is measured from the first add, whatever the key's priority became since.
                    self.slots[id].links.since = since;
                }
            }
            return;
        }
        slot.dirty = true;
        slot.priority = priority;
        if !slot.processing {
            self.ready.push(&mut self.slots, id, priority, now);
        }
    }

    /// Queues a key.
    pub fn add(&mut self, key: &T, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down {
            return;
        }
        let id = self.intern(key);
        self.add_id(id, priority, reason, now);
    }

    /// Queues a key after `delay`. Of several delays of one key the earliest end counts.
    pub fn add_after(&mut self, key: &T, delay: Duration, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down {
            return;
        }
        let id = self.intern(key);
        self.add_id_after(id, delay, priority, reason, now);
    }

    /// As [`Queue::add_after`], by number.
    pub fn add_id_after(&mut self, id: KeyId, delay: Duration, priority: i32, reason: Reason, now: Duration) {
        if self.shutting_down || !self.slots.contains_key(id) {
            return;
        }
        if delay.is_zero() {
            self.add_id(id, priority, reason, now);
            return;
        }
        let at = nanos(now.saturating_add(delay));
        let slots = &mut self.slots;
        let slot = &mut slots[id];
        let place = slot.delayed_at;
        if place == NOWHERE {
            (slot.delayed_priority, slot.delayed_reason) = (priority, reason);
            self.delays.push(at, id, |id, place| slots[id].delayed_at = place);
        } else {
            slot.delayed_priority = slot.delayed_priority.max(priority);
            if at < self.delays.at(place) {
                slot.delayed_reason = reason;
                self.delays.hasten(place, at, |id, place| slots[id].delayed_at = place);
            }
        }
    }

    /// Queues a key after what the limiter says, and counts the failure. Says how long.
    pub fn add_rate_limited(&mut self, key: &T, priority: i32, reason: Reason, now: Duration) -> Duration {
        if self.shutting_down {
            return Duration::ZERO;
        }
        let id = self.intern(key);
        self.add_id_rate_limited(id, priority, reason, now)
    }

    /// As [`Queue::add_rate_limited`], by number.
    pub fn add_id_rate_limited(
        &mut self,
        id: KeyId,
        priority: i32,
        reason: Reason,
        now: Duration,
    ) -> Duration {
        let Some(slot) = self.slots.get_mut(id).filter(|_| !self.shutting_down) else {
            return Duration::ZERO;
        };
        let delay = self.limiter.when(slot.failures, now);
        slot.failures = slot.failures.saturating_add(1);
        self.stats.retries += 1;
        self.add_id_after(id, delay, priority, reason, now);
        delay
    }

    /// Forgets the failures of a key: its next delay is the first one again.
    pub fn forget(&mut self, key: &T) {
        if let Some(id) = self.ids.get(key) {
            self.forget_id(id);
        }
    }

    /// As [`Queue::forget`], by number.
    pub fn forget_id(&mut self, id: KeyId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.failures = 0;
            self.rest(id);
        }
    }

    /// How often the key was rate-limited since it was forgotten.
    pub fn num_requeues(&self, key: &T) -> u32 {
        self.ids.get(key).map_or(0, |id| self.failures_of(id))
    }

    pub(super) fn failures_of(&self, id: KeyId) -> u32 {
        self.slots.get(id).map_or(0, |slot| slot.failures)
    }

    /// Queues every delayed key whose time has come.
    pub fn fire_due(&mut self, now: Duration) {
        let now = nanos(now);
        while self.delays.earliest().is_some_and(|at| at <= now) {
            let slots = &mut self.slots;
            let due =
                self.delays.pop(|id, place| slots[id].delayed_at = place).expect("there is an earliest");
            let slot = &slots[due.id];
            let (priority, reason) = (slot.delayed_priority, slot.delayed_reason);
            self.stats.adds += 1;
            self.mark_dirty(due.id, priority, reason, due.at);
        }
    }

    /// When the next delayed key is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.delays.earliest().map(Duration::from_nanos)
    }

    /// Takes the next key. It stays with its taker until [`Queue::done`].
    pub fn get(&mut self, now: Duration) -> Option<Run> {
        self.fire_due(now);
        let now = nanos(now);
        let id = self.ready.pop(&mut self.slots, now)?;
        let slot = &mut self.slots[id];
        slot.dirty = false;
        slot.processing = true;
        slot.running_since = now;
        slot.running_place = self.processing.len() as u32;
        self.processing.push(id);
        let waited = Duration::from_nanos(now.saturating_sub(slot.links.since));
        self.stats.waited.observe(waited);
        let reasons = std::mem::take(&mut slot.reasons);
        Some(Run { id, priority: slot.priority, reasons, failures: slot.failures, waited })
    }

    /// Gives a key back. If it was added meanwhile it is queued again, once. Says whether it was.
    pub fn done(&mut self, id: KeyId, now: Duration) -> bool {
        let Some(slot) = self.slots.get_mut(id) else { return false };
        if !slot.processing {
            return false;
        }
        let now = nanos(now);
        slot.processing = false;
        self.stats.worked.observe(Duration::from_nanos(now.saturating_sub(slot.running_since)));
        let place = slot.running_place as usize;
        self.processing.swap_remove(place);
        if let Some(moved) = self.processing.get(place) {
            self.slots[*moved].running_place = place as u32;
        }
        let slot = &self.slots[id];
        if slot.dirty {
            let priority = slot.priority;
            self.ready.push(&mut self.slots, id, priority, now);
            return true;
        }
        self.rest(id);
        false
    }

    fn rest(&mut self, id: KeyId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        if !slot.idle() || slot.in_idle {
            return;
        }
        slot.in_idle = true;
        self.idle.push_back(id);
        while self.idle.len() > self.idle_keys && !self.interned_elsewhere {
            if let Some(key) = self.forget_oldest() {
                self.ids.remove(&key);
            }
        }
    }

    /// The key that was idle longest, unless it is busy again: then it only leaves the idle ones.
    fn forget_oldest(&mut self) -> Option<T> {
        let oldest = self.idle.pop_front()?;
        let slot = &mut self.slots[oldest];
        slot.in_idle = false;
        if !slot.idle() {
            return None;
        }
        let slot = self.slots.remove(oldest).expect("an idle key has a slot");
        let hash = self.flow_hashes[slot.flow as usize];
        let (_, members) = self.flows.get_mut(&hash).expect("a slot's flow is known");
        *members -= 1;
        if *members == 0 {
            self.flows.remove(&hash);
            self.free_flows.push(slot.flow);
        }
        slot.key
    }

    /// Refuses adds from now on and drops what is delayed. What is queued is still handed out.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        let slots = &mut self.slots;
        let mut freed = Vec::new();
        self.delays.clear(|id, place| {
            slots[id].delayed_at = place;
            freed.push(id);
        });
        for id in freed {
            self.rest(id);
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
        self.slots.len() - self.reserved
    }

    /// Whether nothing is queued or running: what a drain waits for.
    pub fn drained(&self) -> bool {
        self.processing.is_empty() && self.ready.len() == 0
    }

    pub(super) fn depths(&self) -> impl Iterator<Item = (i32, usize)> + '_ {
        self.ready.depths()
    }

    pub(super) fn running_since(&self) -> impl Iterator<Item = Duration> + '_ {
        self.processing.iter().map(|id| Duration::from_nanos(self.slots[*id].running_since))
    }
}
