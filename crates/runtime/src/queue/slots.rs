//! What the queue knows of each key, in places that are used again.

use super::delay::NOWHERE;
use super::ready::Links;
use super::reason::{Reason, Reasons};

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// Places that an empty queue always keeps.
const KEPT_PLACES: usize = 256;

/// A key that the queue knows, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    place: u32,
    /// Tells a forgotten key from the one that took its place.
    generation: u32,
}

/// What the queue knows of one key.
#[derive(Debug)]
pub(super) struct Slot<T> {
    /// Nothing while the place is free; `links` then lead to the next free one.
    key: Option<T>,
    generation: u32,
    pub(super) hash: u32,
    pub(super) links: Links,
    pub(super) flow: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
    pub(super) delayed_at: u32,
    pub(super) delayed_priority: i32,
    pub(super) delayed_reason: Reason,
    pub(super) reasons: Reasons,
    pub(super) running_since: u64,
    pub(super) running_place: u32,
    pub(super) dirty: bool,
    pub(super) processing: bool,
    pub(super) in_idle: bool,
}

impl<T> Slot<T> {
    fn new(key: T, hash: u32, flow: u32, generation: u32) -> Self {
        Slot {
            key: Some(key),
            generation,
            hash,
            links: Links::default(),
            flow,
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
        }
    }

    pub(super) fn key(&self) -> &T {
        self.key.as_ref().expect("whoever has a place of a key has not freed it")
    }

    pub(super) fn idle(&self) -> bool {
        !self.dirty && !self.processing && self.delayed_at == NOWHERE && self.failures == 0
    }
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Slot<T>>,
    /// The place that was freed last: it is still in the processor's cache.
    free: u32,
    live: usize,
    generation: u32,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots { slots: Vec::new(), free: NONE, live: 0, generation: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn insert(&mut self, key: T, hash: u32, flow: u32) -> u32 {
        self.live += 1;
        self.generation = self.generation.wrapping_add(1);
        let slot = Slot::new(key, hash, flow, self.generation);
        if let Some(free) = self.slots.get_mut(self.free as usize) {
            let place = self.free;
            self.free = free.links.flow_next;
            *free = slot;
            return place;
        }
        self.slots.push(slot);
        u32::try_from(self.slots.len() - 1).expect("fewer keys than a process has memory for")
    }

    pub(super) fn remove(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        slot.key = None;
        slot.links.flow_next = self.free;
        self.free = place;
        self.live -= 1;
    }

    /// How many fit without making room, beyond those that are always kept.
    pub(super) fn room(&self) -> usize {
        self.slots.len().saturating_sub(KEPT_PLACES)
    }

    /// Gives back all room; nothing is live.
    pub(super) fn clear(&mut self) {
        (self.slots, self.free) = (Vec::new(), NONE);
    }

    /// The number of what lies at a place.
    pub(super) fn id(&self, place: u32) -> KeyId {
        KeyId { place, generation: self.slots[place as usize].generation }
    }

    /// Where a key lies, unless it was forgotten.
    pub(super) fn place(&self, id: KeyId) -> Option<u32> {
        let slot = self.slots.get(id.place as usize)?;
        (slot.generation == id.generation && slot.key.is_some()).then_some(id.place)
    }

    /// Nothing at [`NONE`].
    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Slot<T>> {
        self.slots.get_mut(place as usize)
    }

    /// Nothing at [`NONE`].
    pub(super) fn get(&self, place: u32) -> Option<&Slot<T>> {
        self.slots.get(place as usize)
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = Slot<T>;

    fn index(&self, place: u32) -> &Slot<T> {
        &self.slots[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, place: u32) -> &mut Slot<T> {
        &mut self.slots[place as usize]
    }
}
