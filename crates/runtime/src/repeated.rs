//! Failures that repeat: each is told once a minute.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use tokio::time::Instant;

/// How long a failure that was told is not told again.
const SILENCE: Duration = Duration::from_secs(60);
/// How many failures are remembered. At the bound those older than a minute are forgotten, and if none is, all: then some
/// are told more often.
const MOST: usize = 4096;

/// The failures that were told in the last minute.
pub(crate) struct Repeated<K> {
    told: HashMap<(K, u64), Told>,
}

struct Told {
    at: Instant,
    untold: u64,
}

impl<K> Default for Repeated<K> {
    fn default() -> Self {
        Repeated { told: HashMap::new() }
    }
}

impl<K: Eq + Hash> Repeated<K> {
    /// Returns how often this failure occurred since it was told last, or `None` if that is less than a minute ago.
    /// Failures that differ only in their digits are one: durations and revisions differ each time.
    pub(crate) fn failed(&mut self, of: K, failure: &str, now: Instant) -> Option<u64> {
        self.make_room(now);
        let text: String = failure.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let place = (of, self.told.hasher().hash_one(text));
        let Some(told) = self.told.get_mut(&place) else {
            self.told.insert(place, Told { at: now, untold: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(told.at) < SILENCE {
            told.untold += 1;
            return None;
        }
        told.at = now;
        Some(std::mem::take(&mut told.untold))
    }

    fn make_room(&mut self, now: Instant) {
        if self.told.len() < MOST {
            return;
        }
        self.told.retain(|_, told| now.saturating_duration_since(told.at) < SILENCE);
        if self.told.len() >= MOST {
            self.told.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once_a_minute_and_each_by_itself() {
        let (mut repeated, start) = (Repeated::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(repeated.failed("a", "refused after 1.5 s", at(0)), Some(0));
        assert_eq!(repeated.failed("a", "refused after 2.5 s", at(1)), None);
        assert_eq!(repeated.failed("a", "not found", at(1)), Some(0), "another failure");
        assert_eq!(repeated.failed("b", "refused after 1.5 s", at(1)), Some(0), "another object");
        assert_eq!(repeated.failed("a", "refused after 9.5 s", at(59)), None);
        assert_eq!(repeated.failed("a", "refused after 9.5 s", at(60)), Some(2));
        assert_eq!(repeated.failed("a", "refused after 9.5 s", at(119)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut repeated, now) = (Repeated::default(), Instant::now());
        for object in 0..=MOST {
            assert_eq!(repeated.failed(object, "no", now), Some(0));
        }
        assert_eq!(repeated.told.len(), 1);
    }
}
