//! The handle through which everything draws random numbers that a seed can replay.

use std::sync::{Arc, Mutex};

/// A seeded source of random numbers (xoshiro256**). Clones share one sequence.
///
/// Not for secrets: keys and tokens come from the cryptographic library.
///
/// ```
/// use setpoint_api::Random;
/// assert_eq!(Random::from_seed(7).uid(), Random::from_seed(7).uid());
/// ```
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<[u64; 4]>>);

/// The alphabet of generated name suffixes: no vowels, no look-alikes.
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

impl Random {
    /// The same seed gives the same sequence.
    pub fn from_seed(seed: u64) -> Self {
        // splitmix64 spreads the seed, as xoshiro's authors advise; the state must not be all zero.
        let mut spread = seed;
        let state = std::array::from_fn(|_| {
            spread = spread.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = spread;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        Random(Arc::new(Mutex::new(state)))
    }

    /// A sequence of its own that goes on where this one is now.
    pub fn fork(&self) -> Self {
        let state = *self.0.lock().expect("no holder of this lock panics");
        Random(Arc::new(Mutex::new(state)))
    }

    /// The next 64 bits.
    pub fn next_u64(&self) -> u64 {
        let mut s = self.0.lock().expect("no holder of this lock panics");
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no number to draw");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A version 4 UUID, as `metadata.uid` has it.
    pub fn uid(&self) -> String {
        let high = (self.next_u64() & !0xf000) | 0x4000;
        let low = (self.next_u64() & !(0xc << 60)) | (0x8 << 60);
        let digits = (u128::from(high) << 64) | u128::from(low);
        // By hand: every reconcile and every object gets one, and waits for it.
        let mut text = String::with_capacity(36);
        for place in (0..32).rev() {
            text.push(char::from(b"0123456789abcdef"[(digits >> (place * 4)) as usize & 0xf]));
            if matches!(place, 24 | 20 | 16 | 12) {
                text.push('-');
            }
        }
        text
    }

    /// `length` characters of [`SUFFIX_ALPHABET`], as `metadata.generateName` appends them.
    pub fn suffix(&self, length: usize) -> String {
        (0..length).map(|_| SUFFIX_ALPHABET[self.below(27) as usize] as char).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_goes_on_by_itself() {
        let random = Random::from_seed(4);
        let first = random.uid();
        let fork = random.fork();
        let next = random.uid();
        assert_ne!(first, next);
        assert_eq!((fork.uid(), fork.uid()), (next, random.uid()));
    }

    #[test]
    fn a_uid_has_the_version_and_variant_of_rfc_4122() {
        let random = Random::from_seed(1);
        for _ in 0..100 {
            let uid = random.uid();
            assert_eq!(uid.len(), 36);
            assert_eq!(&uid[14..15], "4");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
    }

    #[test]
    fn a_uid_has_the_digits_that_were_drawn() {
        let (random, again) = (Random::from_seed(3), Random::from_seed(3));
        for _ in 0..100 {
            let (high, low) = (again.next_u64(), again.next_u64());
            let drawn = format!("{high:016x}{low:016x}");
            let [a, b, c, d, e] = [&drawn[..8], &drawn[8..12], &drawn[13..16], &drawn[17..20], &drawn[20..]];
            let variant = 8 + (low >> 60) % 4;
            assert_eq!(random.uid(), format!("{a}-{b}-4{c}-{variant:x}{d}-{e}"));
        }
    }

    #[test]
    fn below_stays_below_and_reaches_every_number() {
        let random = Random::from_seed(2);
        let mut seen = [false; 27];
        for _ in 0..2000 {
            seen[random.below(27) as usize] = true;
        }
        assert_eq!(seen, [true; 27]);
    }
}
