//! Reconciles that wake themselves: each pass changes its own object, and that change queues the next pass.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::key::Key;
use crate::queue::{Reasons, SourceName, Trigger};

/// After how many passes in a row, each woken by the write of the one before, a loop is assumed. An object that goes
/// through its states has fewer.
const PASSES: u32 = 20;
/// The time in which they have to follow each other.
const WITHIN: Duration = Duration::from_secs(60);
/// How many objects are counted at a time. At the bound all counts begin anew.
const MOST: usize = 4096;

/// The objects whose last pass changed them.
#[derive(Default)]
pub(super) struct HotLoops(HashMap<Key, Count>);

struct Count {
    passes: u32,
    since: Instant,
}

impl HotLoops {
    /// Notes a pass that ended. `changed`: it changed its own object. Returns the number of passes if this object is in
    /// a loop, once for each [`PASSES`] of them.
    pub(super) fn passed(
        &mut self,
        key: &Key,
        reasons: &Reasons,
        own: SourceName,
        changed: bool,
        now: Instant,
    ) -> Option<u32> {
        if !changed {
            // Most passes change nothing: their keys need not be hashed.
            if !self.0.is_empty() {
                self.0.remove(key);
            }
            return None;
        }
        let woken_by_own = reasons.forgotten() == 0
            && reasons.iter().all(|(reason, _)| reason.source == own && reason.trigger == Trigger::Updated);
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let count = self.0.entry(key.clone()).or_insert(Count { passes: 0, since: now });
        if !woken_by_own || now.saturating_duration_since(count.since) > WITHIN {
            *count = Count { passes: 0, since: now };
        }
        count.passes += 1;
        if count.passes < PASSES {
            return None;
        }
        let passes = count.passes;
        *count = Count { passes: 0, since: now };
        Some(passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Reason;

    /// In how many of these passes a loop is found: each with why it ran, whether it changed the object, and its second.
    fn found(passes: impl Iterator<Item = (&'static str, bool, u64)>) -> usize {
        let (key, own, start) = (Key::cluster("x"), SourceName::named("Website"), Instant::now());
        let mut loops = HotLoops::default();
        let told = |(by, changed, second): (&str, bool, u64)| {
            let reasons = Reasons::of(Reason::new(by, Trigger::Updated));
            loops.passed(&key, &reasons, own, changed, start + Duration::from_secs(second))
        };
        passes.filter_map(told).count()
    }

    #[test]
    fn only_passes_that_wake_each_other_are_a_loop() {
        let passes = || 0..u64::from(PASSES);
        assert_eq!(found(passes().skip(1).map(|_| ("Website", true, 0))), 0, "too few");
        assert_eq!(found(passes().map(|_| ("Website", true, 0))), 1);
        let longer = || passes().chain(passes()).chain(passes());
        assert_eq!(found(longer().map(|_| ("Website", true, 0))), 3, "told again after as many");
        assert_eq!(found(longer().map(|_| ("ConfigMap", true, 0))), 0, "woken by children");
        assert_eq!(
            found(longer().map(|pass| ("Website", pass % 2 == 0, 0))),
            0,
            "each second changes nothing"
        );
        assert_eq!(found(passes().map(|pass| ("Website", true, pass * 5))), 0, "one each five seconds");
    }
}
