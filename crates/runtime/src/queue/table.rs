//! A hash table from a key's hash to the place of its slot, with eight bytes per key.
//!
//! With a million keys, cache misses decide the cost of a lookup. Two properties save most of them. Removal is lazy: a
//! stale bucket is detected on lookup, which saves one miss per removal. [`Table::warm`] touches the buckets of a batch
//! together, so that their misses overlap. A `hashbrown::HashTable` has neither and took three times the processor time
//! (`docs/benchmarks.md`, section Queue).

use super::slots::NONE;

/// The place of a key's slot, and the part of the key's hash that selects the bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    place: u32,
}

const FREE: Bucket = Bucket { hash: 0, place: NONE };

/// The result of comparing the wanted key with the slot that a bucket of the same hash names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The slot has the wanted key.
    Found,
    /// The slot has another key of the same hash.
    OtherKey,
    /// The slot is free or has a key of another hash: the key of this bucket was removed.
    Stale,
}

/// The bucket for a key that the table does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(usize);

/// A hash table with linear probing. Its order never shows.
#[derive(Debug, Default)]
pub(super) struct Table {
    buckets: Vec<Bucket>,
    /// Number of buckets that are not free, stale ones included.
    taken: usize,
}

impl Table {
    /// Returns the place of the key with this hash, as `probe` compares it, or the bucket for it.
    pub(super) fn find(&self, hash: u32, probe: impl Fn(u32) -> Probe) -> Result<u32, Room> {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return Err(Room(0)) };
        let mut at = hash as usize & mask;
        let mut left = None;
        loop {
            let bucket = self.buckets[at];
            if bucket.place == NONE {
                return Err(Room(left.unwrap_or(at)));
            }
            if bucket.hash == hash {
                match probe(bucket.place) {
                    Probe::Found => return Ok(bucket.place),
                    // A key that comes back takes its old bucket, so that each key has at most one.
                    Probe::Stale => left = Some(at),
                    Probe::OtherKey => {}
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether the next key does not fit. Call [`Table::make_room`] then, not [`Table::insert`].
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * 3 > self.buckets.len() * 2
    }

    /// Inserts a key into the bucket that [`Table::find`] returned for it.
    pub(super) fn insert(&mut self, Room(at): Room, hash: u32, place: u32) {
        let bucket = &mut self.buckets[at];
        self.taken += usize::from(bucket.place == NONE);
        *bucket = Bucket { hash, place };
    }

    /// Makes room for more keys. Drops the stale buckets: `known` yields hash and place of every key that is left.
    pub(super) fn make_room(&mut self, many: usize, known: impl Iterator<Item = (u32, u32)>) {
        // Stale buckets are room enough, unless most buckets are in use.
        let room = if many * 3 > self.buckets.len() { self.buckets.len() * 2 } else { self.buckets.len() };
        self.buckets.clear();
        self.buckets.resize(room.max(16), FREE);
        self.taken = 0;
        for (hash, place) in known {
            put(&mut self.buckets, Bucket { hash, place });
            self.taken += 1;
        }
    }

    /// Notes that no key is left. Empties the buckets only if a quarter is taken, so that the cost per key stays small.
    pub(super) fn all_forgotten(&mut self) {
        if self.taken * 4 > self.buckets.len() {
            self.buckets.fill(FREE);
            self.taken = 0;
        }
    }

    /// Frees the memory of an empty table.
    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }

    /// Loads the buckets of these hashes into the processor's cache. Their misses overlap here; later lookups would wait
    /// for one after the other.
    pub(super) fn warm(&self, hashes: impl Iterator<Item = u32>) {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return };
        let seen = hashes.fold(0, |seen, hash| seen ^ self.buckets[hash as usize & mask].place);
        std::hint::black_box(seen);
    }
}

/// Puts a bucket into the first free position from its own on.
fn put(buckets: &mut [Bucket], bucket: Bucket) {
    let mask = buckets.len() - 1;
    let mut at = bucket.hash as usize & mask;
    while buckets[at].place != NONE {
        at = (at + 1) & mask;
    }
    buckets[at] = bucket;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Few hashes and few places, so that probing, forgetting and coming again happen all the time.
        #[test]
        fn it_finds_what_was_put_in_and_nothing_else(
            steps in prop::collection::vec((any::<bool>(), 0..60u32), 1..300),
        ) {
            let hash = |key: u32| (key % 7).wrapping_mul(0x9e37_79b9);
            let mut table = Table::default();
            // The key at each place, and the place of each key.
            let mut places: Vec<Option<u32>> = Vec::new();
            let mut known: BTreeMap<u32, u32> = BTreeMap::new();
            let probe = |places: &[Option<u32>], key: u32, place: u32| match places[place as usize] {
                Some(there) if there == key => Probe::Found,
                Some(there) if hash(there) == hash(key) => Probe::OtherKey,
                _ => Probe::Stale,
            };
            for (add, key) in steps {
                match table.find(hash(key), |place| probe(&places, key, place)) {
                    Err(room) if add => {
                        let place = places.iter().position(Option::is_none).unwrap_or_else(|| {
                            places.push(None);
                            places.len() - 1
                        });
                        places[place] = Some(key);
                        known.insert(key, place as u32);
                        if table.is_full() {
                            table.make_room(known.len(), known.iter().map(|(key, place)| (hash(*key), *place)));
                        } else {
                            table.insert(room, hash(key), place as u32);
                        }
                    }
                    Ok(place) if !add => {
                        places[place as usize] = None;
                        known.remove(&key);
                        if known.is_empty() {
                            table.all_forgotten();
                        }
                    }
                    _ => {}
                }
                for key in 0..60 {
                    let found = table.find(hash(key), |place| probe(&places, key, place)).ok();
                    prop_assert_eq!(found, known.get(&key).copied());
                }
                prop_assert!(table.buckets.len() <= 256, "60 keys in {} buckets", table.buckets.len());
            }
        }
    }
}
