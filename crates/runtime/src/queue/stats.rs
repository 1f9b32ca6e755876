//! The counters of the queue: plain numbers beside the data, which a scrape reads.

use std::time::Duration;

/// Upper bounds of the queue's histograms in seconds, as controller-runtime has them: 10 ns to 1000 s.
pub const BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3];

/// Counts of one queue since its start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Keys that were added and not queued already.
    pub adds: u64,
    /// Delayed adds, rate-limited ones among them.
    pub retries: u64,
    /// How long it was from a key's add until it was taken.
    pub waited: Histogram,
    /// How long keys were with a worker.
    pub worked: Histogram,
}

/// A histogram over [`BUCKETS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Observations per bucket; the last one is everything above the highest bound.
    pub buckets: [u64; BUCKETS.len() + 1],
    /// Sum of all observations in nanoseconds.
    pub sum_nanos: u128,
}

impl Histogram {
    /// Counts one duration.
    pub fn observe(&mut self, duration: Duration) {
        let nanos = duration.as_nanos() as u64;
        self.sum_nanos += u128::from(nanos);
        self.buckets[bucket(nanos)] += 1;
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The bounds in nanoseconds: the powers of ten from ten on.
const BOUNDS: [u64; BUCKETS.len()] = {
    let mut bounds = [10; BUCKETS.len()];
    let mut place = 1;
    while place < bounds.len() {
        bounds[place] = bounds[place - 1] * 10;
        place += 1;
    }
    bounds
};

/// By its number of binary digits: the first bucket that a duration may be in. No power of two lies between the bounds
/// of more than two.
const FIRST_BUCKETS: [u8; 65] = {
    let mut first = [0; 65];
    let mut digits = 1;
    while digits < first.len() {
        let least = 1 << (digits - 1);
        let mut place = first[digits - 1];
        while (place as usize) < BOUNDS.len() && BOUNDS[place as usize] < least {
            place += 1;
        }
        first[digits] = place;
        digits += 1;
    }
    first
};

fn bucket(nanos: u64) -> usize {
    let first = usize::from(FIRST_BUCKETS[(u64::BITS - nanos.leading_zeros()) as usize]);
    first + usize::from(BOUNDS.get(first).is_some_and(|bound| nanos > *bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let mut histogram = Histogram::default();
        for nanos in [0, 10, 11, 1_000_000_000, 1_000_000_001, 2_000_000_000_000] {
            histogram.observe(Duration::from_nanos(nanos));
        }
        assert_eq!(histogram.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1]);
        assert_eq!(histogram.count(), 6);
        for exponent in 1..20 {
            let bound = 10u64.pow(exponent);
            let below = (exponent as usize - 1).min(BUCKETS.len());
            assert_eq!((bucket(bound), bucket(bound + 1)), (below, (below + 1).min(BUCKETS.len())));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS.len());
    }
}
