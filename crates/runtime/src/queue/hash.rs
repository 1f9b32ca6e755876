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
            let mut last = [0u8; 8];
            last[..rest.len()].copy_from_slice(rest);
            state = fold(state ^ u64::from_le_bytes(last), MULTIPLIER | 1);
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
