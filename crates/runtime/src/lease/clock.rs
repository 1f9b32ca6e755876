//! Until when this process may act as the leader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The lease clock. The elector moves it forward with every renewal; the client asks it right before every send.
/// Cheap to clone; clones are one clock.
#[derive(Clone, Debug)]
pub struct LeaderClock {
    start: Instant,
    /// Nanoseconds after `start`; zero means that the lease is not held.
    until: Arc<AtomicU64>,
}

impl LeaderClock {
    pub(crate) fn new() -> Self {
        LeaderClock { start: Instant::now(), until: Arc::new(AtomicU64::new(0)) }
    }

    /// Whether this process may act now.
    pub fn holds(&self) -> bool {
        (self.start.elapsed().as_nanos() as u64) < self.until.load(Ordering::Acquire)
    }

    /// When the right to act ends, unless it is renewed.
    pub fn until(&self) -> Option<Instant> {
        let until = self.until.load(Ordering::Acquire);
        (until > 0).then(|| self.start + Duration::from_nanos(until))
    }

    pub(crate) fn extend(&self, until: Instant) {
        let nanos = until.saturating_duration_since(self.start).as_nanos() as u64;
        self.until.store(nanos, Ordering::Release);
    }

    pub(crate) fn stop(&self) {
        self.until.store(0, Ordering::Release);
    }
}
