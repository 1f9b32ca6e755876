//! Places by hash, in little memory: with a million keys a lookup costs what its misses cost, so it touches one place
//! of a table of eight bytes a key, and then the key's slot itself. A key that is forgotten is left where it is: that is
//! found out when it is looked at, and saves one of two misses.

use super::slots::NONE;

/// The place of a key, and the part of its hash that says where its bucket would be.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    place: u32,
}

const FREE: Bucket = Bucket { hash: 0, place: NONE };

/// The content of a place at which a key of the same hash was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The key that is looked for.
    Found,
    /// Another key of the same hash.
    OtherKey,
    /// Nothing, or a key of another hash: the one that was here is forgotten.
    Stale,
}

/// The place for a key that is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(usize);

/// A hash table with linear probing. Its order never shows.
#[derive(Debug, Default)]
pub(super) struct Table {
    buckets: Vec<Bucket>,
    /// Buckets that are not free, those of forgotten keys included.
    taken: usize,
}

impl Table {
    /// The place of the key with this hash that `probe` knows, or where to put it.
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
                    // Whoever comes again takes its old bucket, so that there is one for each key at most.
                    Probe::Stale => left = Some(at),
                    Probe::OtherKey => {}
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether a key needs more room than there is: then [`Table::make_room`] instead of [`Table::insert`].
    pub(super) fn is_full(&self) -> bool {
        (self.taken + 1) * 3 > self.buckets.len() * 2
    }

    /// A key that is not there, where [`Table::find`] said.
    pub(super) fn insert(&mut self, Room(at): Room, hash: u32, place: u32) {
        let bucket = &mut self.buckets[at];
        self.taken += usize::from(bucket.place == NONE);
        *bucket = Bucket { hash, place };
    }

    /// Makes room for more keys than there are: those that are forgotten leave, `known` are all others.
    pub(super) fn make_room(&mut self, many: usize, known: impl Iterator<Item = (u32, u32)>) {
        // What was taken by forgotten keys is room enough, unless most of it was not.
        let room = if many * 3 > self.buckets.len() { self.buckets.len() * 2 } else { self.buckets.len() };
        self.buckets.clear();
        self.buckets.resize(room.max(16), FREE);
        self.taken = 0;
        for (hash, place) in known {
            put(&mut self.buckets, Bucket { hash, place });
            self.taken += 1;
        }
    }

    /// No key is known any more. Emptied once a quarter is taken, so that it costs next to nothing for each of them.
    pub(super) fn all_forgotten(&mut self) {
        if self.taken * 4 > self.buckets.len() {
            self.buckets.fill(FREE);
            self.taken = 0;
        }
    }

    /// Gives back all room; nothing is in it.
    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }

    /// Brings the buckets of these hashes near. Of a long table each is far away, and the processor waits for all of
    /// them together here, for one after the other later.
    pub(super) fn warm(&self, hashes: impl Iterator<Item = u32>) {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return };
        let seen = hashes.fold(0, |seen, hash| seen ^ self.buckets[hash as usize & mask].place);
        std::hint::black_box(seen);
    }
}

/// Into the first free bucket from its own on.
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
            // Which key probe at a place, and the other way round.
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
