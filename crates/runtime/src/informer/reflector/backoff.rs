//! How long to wait before the next attempt.

use std::time::Duration;

use setpoint_api::Random;
use tokio::time::Instant;

/// First delay.
const FIRST: Duration = Duration::from_millis(800);
/// Longest delay, before jitter doubles it at most.
const LONGEST: Duration = Duration::from_secs(30);
/// After this long without a failure the next one counts as the first again.
const CALM: Duration = Duration::from_secs(120);

/// The delays of one watch: 800 ms doubling to 30 s, each stretched by up to its own length, so that many clients
/// do not return together.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    last_used: Option<Instant>,
    random: Random,
}

impl Backoff {
    pub fn new(random: Random) -> Self {
        Backoff { next: FIRST, last_used: None, random }
    }

    /// The delay to wait now.
    pub fn delay(&mut self, now: Instant) -> Duration {
        if self.last_used.is_some_and(|used| now.duration_since(used) > CALM) {
            self.next = FIRST;
        }
        let base = self.next;
        self.next = (base * 2).min(LONGEST);
        let delay = base + base.mul_f64(self.random.unit());
        self.last_used = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_double_to_thirty_seconds_and_start_over_after_two_calm_minutes() {
        let mut backoff = Backoff::new(Random::from_seed(1));
        let mut now = Instant::now();
        for base in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let delay = backoff.delay(now);
            assert!((base..=base * 2.0).contains(&delay.as_secs_f64()), "{delay:?} for {base}");
            now += delay;
        }
        now += CALM + Duration::from_secs(1);
        assert!(backoff.delay(now) <= Duration::from_millis(1600));
    }
}
