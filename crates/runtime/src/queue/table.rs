//! Numbers by key, in little memory: with a million keys a lookup costs what its misses cost, so it touches one place
//! of a table of eight bytes a key, and then the entry itself.

use std::hash::{BuildHasher, Hash};

use super::core::KeyId;
use super::hash::FoldState;

/// No entry.
const EMPTY: u32 = u32::MAX;

/// Where an entry lies, and the part of its key's hash that says where its bucket would be.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    hash: u32,
    place: u32,
}

const FREE: Bucket = Bucket { hash: 0, place: EMPTY };

/// A hash table with linear probing. Its order never shows.
#[derive(Debug)]
pub(super) struct Table<T> {
    buckets: Vec<Bucket>,
    entries: Vec<Option<(T, KeyId)>>,
    free: Vec<u32>,
    hasher: FoldState,
}

impl<T: Eq + Hash> Table<T> {
    pub(super) fn new(hasher: FoldState) -> Self {
        Table { buckets: Vec::new(), entries: Vec::new(), free: Vec::new(), hasher }
    }

    pub(super) fn get(&self, key: &T) -> Option<KeyId> {
        let bucket = self.find(key, self.hash(key))?;
        let entry = self.entries[self.buckets[bucket].place as usize].as_ref();
        entry.map(|(_, id)| *id)
    }

    /// A key that is not there.
    pub(super) fn insert(&mut self, key: T, id: KeyId) {
        let live = self.entries.len() - self.free.len();
        if (live + 1) * 3 > self.buckets.len() * 2 {
            self.grow();
        }
        let hash = self.hash(&key);
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some((key, id));
                place
            }
            None => {
                self.entries.push(Some((key, id)));
                u32::try_from(self.entries.len() - 1).expect("fewer keys than a process has memory for")
            }
        };
        put(&mut self.buckets, Bucket { hash, place });
    }

    pub(super) fn remove(&mut self, key: &T) {
        let Some(mut gap) = self.find(key, self.hash(key)) else { return };
        let place = self.buckets[gap].place;
        self.entries[place as usize] = None;
        self.free.push(place);
        // What probing pushed past the gap moves back into it, so that no search ends too early.
        let mask = self.buckets.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.place == EMPTY {
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
    }

    fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    fn find(&self, key: &T, hash: u32) -> Option<usize> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let bucket = self.buckets[at];
            if bucket.place == EMPTY {
                return None;
            }
            let matches = |entry: &Option<(T, KeyId)>| entry.as_ref().is_some_and(|(known, _)| known == key);
            if bucket.hash == hash && matches(&self.entries[bucket.place as usize]) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let mut buckets = vec![FREE; (self.buckets.len() * 2).max(16)];
        for bucket in self.buckets.iter().filter(|bucket| bucket.place != EMPTY) {
            put(&mut buckets, *bucket);
        }
        self.buckets = buckets;
    }
}

/// Into the first free bucket from its own on.
fn put(buckets: &mut [Bucket], bucket: Bucket) {
    let mask = buckets.len() - 1;
    let mut at = bucket.hash as usize & mask;
    while buckets[at].place != EMPTY {
        at = (at + 1) & mask;
    }
    buckets[at] = bucket;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slotmap::SlotMap;

    use super::*;

    /// Keys whose hashes collide in few buckets, so that probing and moving back happen all the time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Crowded(u16);

    impl Hash for Crowded {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            (self.0 % 7).hash(state);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_finds_what_was_put_in_and_nothing_else(
            steps in prop::collection::vec((any::<bool>(), 0..60u16), 1..300),
        ) {
            let mut ids = SlotMap::<KeyId, ()>::with_key();
            let mut table = Table::new(FoldState(1));
            let mut reference = BTreeMap::new();
            for (add, key) in steps {
                let key = Crowded(key);
                if add && !reference.contains_key(&key) {
                    let id = ids.insert(());
                    table.insert(key, id);
                    reference.insert(key, id);
                } else if !add {
                    table.remove(&key);
                    reference.remove(&key);
                }
                for number in 0..60 {
                    let key = Crowded(number);
                    prop_assert_eq!(table.get(&key), reference.get(&key).copied());
                }
            }
        }
    }
}
