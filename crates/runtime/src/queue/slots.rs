//! The state of each key in the queue, in places that are used again.

use super::delay::NOWHERE;
use super::reason::Reasons;

/// No place.
pub(super) const NONE: u32 = u32::MAX;

/// Places that an empty queue always keeps.
const KEPT_PLACES: usize = 256;

/// So many places lie together. A longer queue gets further ones and moves nothing.
const CHUNK: usize = 1024;

/// A key that the queue knows, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    place: u32,
    /// Tells a forgotten key from the one that took its place.
    generation: u32,
}

/// The state of one key in the queue.
#[derive(Debug)]
pub(super) struct Slot<T> {
    /// Nothing while the place is free.
    key: Option<T>,
    generation: u32,
    pub(super) hash: u32,
    /// Its number in the line of its flow if it is ready, among the running keys if it runs.
    pub(super) stands_at: u32,
    /// Its number among all ready keys of its level, where there are flows.
    pub(super) ages_at: u32,
    pub(super) flow: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
    pub(super) delayed_at: u32,
    pub(super) reasons: Reasons,
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
            stands_at: 0,
            ages_at: 0,
            flow,
            priority: 0,
            failures: 0,
            delayed_at: NOWHERE,
            reasons: Reasons::default(),
            dirty: false,
            processing: false,
            in_idle: false,
        }
    }

    pub(super) fn key(&self) -> &T {
        self.key.as_ref().expect("whoever has a place of a key has not freed it")
    }

    /// The key, unless the place is free.
    pub(super) fn known(&self) -> Option<&T> {
        self.key.as_ref()
    }

    pub(super) fn idle(&self) -> bool {
        !self.dirty && !self.processing && self.delayed_at == NOWHERE && self.failures == 0
    }
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots<T> {
    chunks: Vec<Vec<Slot<T>>>,
    /// Places that were freed. The last one is used first: it is still in the processor's cache.
    free: Vec<u32>,
    generation: u32,
}

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Slots { chunks: Vec::new(), free: Vec::new(), generation: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    /// Places, free ones included.
    fn places(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn insert(&mut self, key: T, hash: u32, flow: u32) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        if let Some(place) = self.free.pop() {
            let slot = &mut self[place];
            slot.key = Some(key);
            (slot.generation, slot.hash, slot.flow) = (generation, hash, flow);
            return place;
        }
        let place = self.places();
        if place.is_multiple_of(CHUNK) {
            // The first places come one by one: most queues are short.
            let room = if place == 0 { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        self.chunks[place / CHUNK].push(Slot::new(key, hash, flow, generation));
        u32::try_from(place).expect("fewer keys than a process has memory for")
    }

    /// Removes an idle key: but for the key itself its place is as new.
    pub(super) fn remove(&mut self, place: u32) {
        self[place].key = None;
        self.free.push(place);
    }

    /// Hash and place of every key.
    pub(super) fn known(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let slots = self.chunks.iter().flatten().zip(0..);
        slots.filter(|(slot, _)| slot.key.is_some()).map(|(slot, place)| (slot.hash, place))
    }

    /// Brings near the places that the next `many` keys will take.
    pub(super) fn warm(&self, many: usize) {
        let next = self.free.iter().rev().take(many);
        std::hint::black_box(next.fold(0, |seen, place| seen ^ self[*place].generation));
    }

    /// How many fit without making room, beyond those that are always kept.
    pub(super) fn room(&self) -> usize {
        self.places().saturating_sub(KEPT_PLACES)
    }

    /// Gives back all room; nothing is live.
    pub(super) fn clear(&mut self) {
        (self.chunks, self.free) = (Vec::new(), Vec::new());
    }

    /// The number of what lies at a place.
    pub(super) fn id(&self, place: u32) -> KeyId {
        KeyId { place, generation: self[place].generation }
    }

    /// The place of a key, unless it was forgotten.
    pub(super) fn place(&self, id: KeyId) -> Option<u32> {
        let slot = self.chunks.get(id.place as usize / CHUNK)?.get(id.place as usize % CHUNK)?;
        (slot.generation == id.generation && slot.key.is_some()).then_some(id.place)
    }
}

impl<T> std::ops::Index<u32> for Slots<T> {
    type Output = Slot<T>;

    fn index(&self, place: u32) -> &Slot<T> {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

impl<T> std::ops::IndexMut<u32> for Slots<T> {
    fn index_mut(&mut self, place: u32) -> &mut Slot<T> {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}
