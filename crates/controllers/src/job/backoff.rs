//! Back-off of a Job before it replaces failed pods: ten seconds, doubled with every failure since the last success.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::tracked::{finished_at, index_failures};

const FIRST: Duration = Duration::from_secs(10);
const MOST: Duration = Duration::from_secs(600);

/// The failures of a Job since its last success. It is kept in memory only: a restarted controller starts over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    failures: i32,
    last: Option<Timestamp>,
}

impl Record {
    /// The record with pods that have ended since.
    pub fn with(self, succeeded: &[&Pod], failed: &[&Pod]) -> Record {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let before = if last_success.is_some() { Record::default() } else { self };
        let ends = failed.iter().map(|pod| finished_at(pod));
        let after: Vec<Timestamp> = ends.filter(|end| last_success.is_none_or(|last| *end > last)).collect();
        Record {
            failures: before.failures.saturating_add(super::int(after.len())),
            last: after.into_iter().max().or(before.last),
        }
    }

    /// Returns the time until pods may be created.
    pub fn remaining(self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| remaining(self.failures, last, now))
    }
}

/// Returns the time until a pod may replace this one, of the same index.
pub fn remaining_of_index(replaced: &Pod, now: Timestamp) -> Duration {
    let (_, failures) = index_failures(replaced);
    remaining(failures.saturating_add(1), finished_at(replaced), now)
}

fn remaining(failures: i32, last: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = u32::try_from(failures).ok().and_then(|failures| failures.checked_sub(1)) else {
        return Duration::ZERO;
    };
    let pause = FIRST.saturating_mul(1 << doublings.min(16)).min(MOST);
    let left = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX) - now.duration_since(last);
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}
