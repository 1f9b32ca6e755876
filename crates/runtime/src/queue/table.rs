//! Places by hash, in little memory: with a million keys a lookup costs what its misses cost, so it touches one place
//! of a table of eight bytes a key, and then the key's slot itself.

use super::slots::NONE;

/// Where a key lies, and the part of its hash that says where its bucket would be.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    place: u32,
}

const FREE: Bucket = Bucket { hash: 0, place: NONE };

/// A hash table with linear probing. Its order never shows.
#[derive(Debug, Default)]
pub(super) struct Table {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Table {
    /// The place of the key with this hash that `is_it` knows.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let bucket = self.buckets[at];
            if bucket.place == NONE {
                return None;
            }
            if bucket.hash == hash && is_it(bucket.place) {
                return Some(bucket.place);
            }
            at = (at + 1) & mask;
        }
    }

    /// A place that is not there.
    pub(super) fn insert(&mut self, hash: u32, place: u32) {
        self.len += 1;
        if self.len * 3 > self.buckets.len() * 2 {
            self.grow();
        }
        put(&mut self.buckets, Bucket { hash, place });
    }

    /// A place that is there, with the hash that it was put in with.
    pub(super) fn remove(&mut self, hash: u32, place: u32) {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return };
        let mut gap = hash as usize & mask;
        while self.buckets[gap].place != place {
            if self.buckets[gap].place == NONE {
                return;
            }
            gap = (gap + 1) & mask;
        }
        // What probing pushed past the gap moves back into it, so that no search ends too early.
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.place == NONE {
                break;
            }
            let home = bucket.hash as usize & mask;
            let stays = if gap <= at { gap < home && home <= at } else { gap < home || home <= at };
            if !stays {
                self.buckets[gap] = bucket;
                gap = at;
            }
        }
        self.buckets[gap] = FREE;
        self.len -= 1;
    }

    /// Gives back all room; nothing is in it.
    pub(super) fn clear(&mut self) {
        self.buckets = Vec::new();
    }

    /// Brings the buckets of these hashes near. Of a long table each is far away, and the processor waits for all of
    /// them together here, for one after the other later.
    pub(super) fn warm(&self, hashes: impl Iterator<Item = u32>) {
        let Some(mask) = self.buckets.len().checked_sub(1) else { return };
        let seen = hashes.fold(0, |seen, hash| seen ^ self.buckets[hash as usize & mask].place);
        std::hint::black_box(seen);
    }

    fn grow(&mut self) {
        let mut buckets = vec![FREE; (self.buckets.len() * 2).max(16)];
        for bucket in self.buckets.iter().filter(|bucket| bucket.place != NONE) {
            put(&mut buckets, *bucket);
        }
        self.buckets = buckets;
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

        /// Few hashes, so that probing and moving back happen all the time.
        #[test]
        fn it_finds_what_was_put_in_and_nothing_else(
            steps in prop::collection::vec((any::<bool>(), 0..60u32), 1..300),
        ) {
            let hash = |key: u32| (key % 7).wrapping_mul(0x9e37_79b9);
            let mut table = Table::default();
            let mut reference = BTreeMap::new();
            for (add, key) in steps {
                if add && !reference.contains_key(&key) {
                    table.insert(hash(key), key);
                    reference.insert(key, ());
                } else if !add && reference.remove(&key).is_some() {
                    table.remove(hash(key), key);
                }
                for key in 0..60 {
                    let found = table.find(hash(key), |place| place == key);
                    prop_assert_eq!(found, reference.contains_key(&key).then_some(key));
                }
            }
        }
    }
}
