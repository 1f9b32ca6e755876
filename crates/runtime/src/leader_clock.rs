//! Until when this process may act as the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The lease was not held yet.
const NEVER_HELD: u64 = 0;
/// The lease was held, or given up before it was, and is not held again.
const OVER: u64 = u64::MAX;

/// The lease clock. The elector moves it forward with every renewal; the client asks it right before every send.
/// Once it has run out it stays so: whoever asked meanwhile has stopped for good. Cheap to clone; clones are one
/// clock.
#[derive(Clone, Debug)]
pub struct LeaderClock {
    start: Instant,
    /// Nanoseconds after `start`, or one of the two marks.
    until: Arc<AtomicU64>,
}

impl LeaderClock {
    pub(crate) fn new() -> Self {
        LeaderClock { start: Instant::now(), until: Arc::new(AtomicU64::new(NEVER_HELD)) }
    }

    /// Whether this process may act now.
    pub fn holds(&self) -> bool {
        loop {
            let until = self.until.load(Ordering::Acquire);
            if until == NEVER_HELD || until == OVER {
                return false;
            }
            if self.elapsed() < until {
                return true;
            }
            // Marked, so that an answer that comes now does not bring back what somebody was just told is over. One
            // that came a moment ago counts.
            if self.until.compare_exchange(until, OVER, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return false;
            }
        }
    }

    /// When the right to act ends, unless it is renewed.
    pub fn until(&self) -> Option<Instant> {
        let until = self.until.load(Ordering::Acquire);
        (until != NEVER_HELD && until != OVER).then(|| self.start + Duration::from_nanos(until))
    }

    /// Whether this process cannot act any more: it lost the lease or gave it up.
    pub(crate) fn is_over(&self) -> bool {
        !self.holds() && self.until.load(Ordering::Acquire) == OVER
    }

    /// Moves the end of the right to act. Nothing, and `false`, once it has ended, or if the new end has passed too.
    pub(crate) fn extend(&self, until: Instant) -> bool {
        let nanos = until.saturating_duration_since(self.start).as_nanos() as u64;
        let moved = self.until.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| {
            let now = self.elapsed();
            let open = known == NEVER_HELD || known != OVER && now < known;
            (open && now < nanos).then_some(nanos)
        });
        moved.is_ok()
    }

    pub(crate) fn stop(&self) {
        self.until.store(OVER, Ordering::Release);
    }

    fn elapsed(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_run_out_is_not_brought_back() {
        let clock = LeaderClock::new();
        assert!(!clock.holds() && !clock.is_over(), "it can still come");
        let in_ten = || Instant::now() + Duration::from_secs(10);
        assert!(!clock.extend(Instant::now()), "an answer that took the whole time");
        assert!(clock.extend(in_ten()) && clock.holds());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(clock.extend(in_ten()));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!clock.extend(in_ten()), "nobody asked since, and yet it is over");
        assert!(!clock.holds() && clock.is_over());
        assert!(!clock.extend(in_ten()) && clock.until().is_none());
    }
}
