//! The wall clock of a process: a base that is read once, plus tokio's elapsed time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
pub use setpoint_api::{Clock, Random};
use tokio::time::Instant;

/// The length of a time without an end: clocks cannot count much further.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// When `time` is over, also where it is [`Duration::MAX`]: the sum of the two panics.
pub(crate) fn after(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| begin + FOR_EVER)
}

/// A clock that starts at `base` and advances with tokio's time: a test that pauses or advances tokio's time
/// moves it along.
///
/// # Panics
/// Outside a tokio runtime whose time is paused, never.
pub fn tokio_clock(base: Timestamp) -> Clock {
    let start = Instant::now();
    Clock::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        base.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    })
}

/// A clock that starts at the machine's present time. Steps of the machine's clock after the start are not seen.
pub fn system_clock() -> Clock {
    // The one place where the runtime asks the machine for the time.
    #[allow(clippy::disallowed_methods)]
    let base = Timestamp::now();
    tokio_clock(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_paused_time() {
        let noon: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let clock = tokio_clock(noon);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2026-11-15T12:01:30Z");
    }
}
