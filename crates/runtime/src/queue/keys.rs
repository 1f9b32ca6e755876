//! The keys that the queue knows: found by text or by number, each in the flow that it belongs to.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::slots::Slots;
use super::table::{Probe, Room, Table};
use crate::hash::FoldState;

/// A table of so many keys is near: looking into it takes no time worth saving.
pub(super) const NEAR: usize = 4096;

/// An empty queue gives back the room that it has not filled a quarter of for so long. That of a first state is given
/// back so, that of load which comes again and again stays.
const ROOM_KEPT_NANOS: u64 = 1_000_000_000;

/// The result of [`Keys::rest`] for the room of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    RoomKept,
    RoomGivenBack,
}

/// All keys that are queued, running, delayed or failing, and some idle ones.
#[derive(Debug)]
pub(super) struct Keys<T> {
    pub(super) slots: Slots<T>,
    pub(super) hasher: FoldState,
    table: Table,
    fairness: Option<fn(&T) -> u64>,
    flows: HashMap<u64, (u32, u32), FoldState>,
    free_flows: Vec<u32>,
    flow_hashes: Vec<u64>,
    idle: VecDeque<u32>,
    idle_keys: usize,
    /// The most keys that were known since none was.
    peak: usize,
    /// When they last filled a quarter of their room.
    filled_at: u64,
    now: u64,
}

/// The part of a key's hash that the table looks at.
pub(super) fn hash<T: Hash>(hasher: FoldState, key: &T) -> u32 {
    hasher.hash_one(key) as u32
}

impl<T: Clone + Eq + Hash> Keys<T> {
    pub(super) fn new(seed: u64, fairness: Option<fn(&T) -> u64>, idle_keys: usize) -> Self {
        let hasher = FoldState(seed);
        Keys {
            slots: Slots::new(),
            hasher,
            table: Table::default(),
            fairness,
            flows: HashMap::with_hasher(hasher),
            free_flows: Vec::new(),
            flow_hashes: Vec::new(),
            idle: VecDeque::new(),
            idle_keys,
            peak: 0,
            filled_at: 0,
            now: 0,
        }
    }

    /// The time in nanoseconds, for keys that are kept for a while.
    pub(super) fn tick(&mut self, now: u64) {
        self.now = now;
    }

    pub(super) fn find(&self, key: &T) -> Option<u32> {
        self.look_up(key, hash(self.hasher, key)).ok()
    }

    fn look_up(&self, key: &T, hash: u32) -> Result<u32, Room> {
        self.table.find(hash, |place| {
            let slot = &self.slots[place];
            match slot.known() {
                Some(there) if there == key => Probe::Found,
                Some(_) if slot.hash == hash => Probe::OtherKey,
                _ => Probe::Stale,
            }
        })
    }

    pub(super) fn place(&mut self, key: &T) -> u32 {
        let hash = hash(self.hasher, key);
        match self.look_up(key, hash) {
            Ok(place) => place,
            Err(room) => self.insert(key.clone(), hash, room),
        }
    }

    /// As [`Keys::place`], for who has hashed the key already and has no more use for it.
    pub(super) fn place_of(&mut self, key: T, hash: u32) -> u32 {
        match self.look_up(&key, hash) {
            Ok(place) => place,
            Err(room) => self.insert(key, hash, room),
        }
    }

    /// Brings near what [`Keys::place_of`] is about to look up.
    pub(super) fn warm(&self, hashes: impl ExactSizeIterator<Item = u32>) {
        self.slots.warm(hashes.len());
        self.table.warm(hashes);
    }

    /// Brings near what lies at these places.
    pub(super) fn approach(&self, places: impl Iterator<Item = u32>) {
        let seen = places.fold(0, |seen, place| seen ^ self.slots[place].hash);
        std::hint::black_box(seen);
    }

    fn insert(&mut self, key: T, hash: u32, room: Room) -> u32 {
        let flow = self.fairness.map_or(0, |fairness| self.join_flow(fairness(&key)));
        let place = self.slots.insert(key, hash, flow);
        self.peak = self.peak.max(self.slots.len());
        if self.table.is_full() {
            self.table.make_room(self.slots.len(), self.slots.known());
        } else {
            self.table.insert(room, hash, place);
        }
        place
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

    fn leave_flow(&mut self, flow: u32) {
        let hash = self.flow_hashes[flow as usize];
        let (_, members) = self.flows.get_mut(&hash).expect("a slot's flow is known");
        *members -= 1;
        if *members == 0 {
            self.flows.remove(&hash);
            self.free_flows.push(flow);
        }
    }

    /// A key that nothing is left to do for is forgotten, or the one that was idle longest instead of it.
    pub(super) fn rest(&mut self, place: u32) -> Rest {
        let slot = &mut self.slots[place];
        if !slot.idle() || slot.in_idle {
            return Rest::RoomKept;
        }
        if self.idle_keys == 0 {
            self.remove(place);
            return self.give_back();
        }
        slot.in_idle = true;
        self.idle.push_back(place);
        if self.idle.len() > self.idle_keys {
            self.forget_idle();
        }
        self.give_back()
    }

    /// Forgets the key that was idle longest, unless it is busy again: then it only leaves the idle ones.
    fn forget_idle(&mut self) {
        let Some(oldest) = self.idle.pop_front() else { return };
        let slot = &mut self.slots[oldest];
        slot.in_idle = false;
        if slot.idle() {
            self.remove(oldest);
        }
    }

    /// Gives back room if no key is known.
    fn give_back(&mut self) -> Rest {
        if self.slots.len() > 0 {
            return Rest::RoomKept;
        }
        self.table.all_forgotten();
        let peak = std::mem::take(&mut self.peak);
        if peak >= self.slots.room() / 4 {
            self.filled_at = self.now;
        } else if self.now.saturating_sub(self.filled_at) > ROOM_KEPT_NANOS {
            self.slots.clear();
            self.table.clear();
            return Rest::RoomGivenBack;
        }
        Rest::RoomKept
    }

    fn remove(&mut self, place: u32) {
        let flow = self.slots[place].flow;
        if self.fairness.is_some() {
            self.leave_flow(flow);
        }
        self.slots.remove(place);
    }
}
