//! A fast seeded hasher for the queue's interner.
//!
//! Keys are short strings chosen by users of the cluster, so the hash is seeded: whoever picks object names
//! cannot aim them at one bucket. Iteration order of the table never shows.

use std::hash::{BuildHasher, Hasher};

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes [`FoldHasher`]s that share one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldState(pub(crate) u64);

/// Folds eight bytes at a time with one wide multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoldHasher(u64);

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// The bytes behind the last whole word. Of a text that has one they are read together with those before them; its
/// length, which is hashed too, says how many are new.
fn last(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl BuildHasher for FoldState {
    type Hasher = FoldHasher;

    fn build_hasher(&self) -> FoldHasher {
        FoldHasher(self.0 ^ 0xa076_1d64_78bd_642f)
    }
}

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut state = self.0 ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            state = fold(state ^ u64::from_le_bytes(*word), MULTIPLIER | 1);
        }
        if !rest.is_empty() {
            state = fold(state ^ last(bytes, rest), MULTIPLIER | 1);
        }
        self.0 = state;
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0 ^ value, MULTIPLIER | 1);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.0, 0xe703_7ed1_a0b4_28db)
    }
}
