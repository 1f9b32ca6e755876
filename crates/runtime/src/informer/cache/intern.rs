//! Shares equal parts of objects: pods of one ReplicaSet have the same labels and owners.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use crate::hash::FoldState;

/// The seed of the hashes here; fixed, so that a run can be repeated.
pub(super) const SEED: u64 = 0x1b87_3593;
/// Sweep at least after this many new values.
pub(super) const SWEEP_FLOOR: usize = 1024;

/// A table from the JSON of a value to the shared value. Bounded by what is alive: values that nobody else holds
/// are dropped whenever the table has doubled.
pub(crate) struct Interner<T: ?Sized> {
    // Looked up by key only; its order never shows.
    values: HashMap<Box<[u8]>, Arc<T>, FoldState>,
    sweep_at: usize,
}

impl<T: ?Sized> Interner<T> {
    pub fn new() -> Self {
        Interner { values: HashMap::with_hasher(FoldState(SEED)), sweep_at: SWEEP_FLOOR }
    }

    /// The value read from `json`, shared with all others that were read from the same bytes.
    pub fn get(&mut self, json: &[u8], read: impl FnOnce() -> Arc<T>) -> Arc<T> {
        if let Some(value) = self.values.get(json) {
            return value.clone();
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|_, value| Arc::strong_count(value) > 1);
            self.sweep_at = (self.values.len() * 2).max(SWEEP_FLOOR);
        }
        let value = read();
        self.values.insert(json.into(), value.clone());
        value
    }
}

/// The same bytes give the same number in every process.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    FoldState(SEED).hash_one(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_share_and_the_dead_are_swept() {
        let mut interner = Interner::<str>::new();
        let first = interner.get(b"a", || "a".into());
        assert!(Arc::ptr_eq(&first, &interner.get(b"a", || unreachable!())));
        for number in 0..SWEEP_FLOOR * 4 {
            let text = number.to_string();
            interner.get(text.as_bytes(), || text.as_str().into());
        }
        assert!(interner.values.len() <= SWEEP_FLOOR, "{}", interner.values.len());
        assert!(Arc::ptr_eq(&first, &interner.get(b"a", || unreachable!())));
    }
}
