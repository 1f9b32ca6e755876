//! Back-off for a node's failed pods: otherwise a node that rejects a daemon would get new pods without end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// A DaemonSet's uid, the generation that it has observed, and the node: a new template is tried at once.
pub type Place = (String, i64, String);

/// The waits of all DaemonSets. One that has not failed for twice the longest wait is forgotten.
#[derive(Debug, Default)]
pub struct Backoff(BTreeMap<Place, Wait>);

#[derive(Debug, Clone, Copy)]
struct Wait {
    length: Duration,
    since: Timestamp,
}

impl Wait {
    fn left(&self, now: Timestamp) -> Duration {
        let passed = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        self.length.saturating_sub(passed)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now.duration_since(self.since) > SignedDuration::try_from(LONGEST * 2).unwrap_or(SignedDuration::MAX)
    }
}

impl Backoff {
    /// Returns `None` if a failed pod may be deleted now, and makes the next wait longer. Otherwise returns the
    /// remaining wait.
    pub fn try_now(&mut self, place: Place, now: Timestamp) -> Option<Duration> {
        self.0.retain(|_, wait| !wait.is_over(now));
        let before = self.0.get(&place).copied();
        if let Some(left) = before.map(|wait| wait.left(now)).filter(|left| !left.is_zero()) {
            return Some(left);
        }
        let length = before.map_or(FIRST, |wait| (wait.length * 2).min(LONGEST));
        self.0.insert(place, Wait { length, since: now });
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn place(generation: i64, node: &str) -> Place {
        ("uid".to_owned(), generation, node.to_owned())
    }

    #[test]
    fn waits_double_up_to_a_quarter_of_an_hour_and_are_forgotten() {
        let mut backoff = Backoff::default();
        let mut now = 0;
        for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            assert_eq!(backoff.try_now(place(1, "a"), at(now)), None);
            let left = backoff.try_now(place(1, "a"), at(now));
            assert_eq!(left, Some(Duration::from_secs(wait)));
            let left = backoff.try_now(place(1, "a"), at(now + wait as i64 - 1));
            assert_eq!(left, Some(Duration::from_secs(1)));
            now += wait as i64;
        }
        now += 1801;
        assert_eq!(backoff.try_now(place(1, "a"), at(now)), None);
        assert_eq!(backoff.try_now(place(1, "a"), at(now)), Some(FIRST));
        assert_eq!(backoff.0.len(), 1);
    }

    #[test]
    fn each_node_and_each_generation_waits_for_itself() {
        let mut backoff = Backoff::default();
        for place in [place(1, "a"), place(1, "b"), place(2, "a")] {
            assert_eq!(backoff.try_now(place.clone(), at(0)), None);
            assert_eq!(backoff.try_now(place, at(0)), Some(FIRST));
        }
    }
}
