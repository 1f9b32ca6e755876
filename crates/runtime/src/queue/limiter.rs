//! Rate limiters: how long a key must wait before it may run again.

use std::time::Duration;

/// client-go's and controller-runtime's first delay of a failing key.
pub const BASE_DELAY: Duration = Duration::from_millis(5);
/// The longest delay of a failing key.
pub const MAX_DELAY: Duration = Duration::from_secs(1000);

/// Says how long to wait, given how often the key was limited since it was last forgotten.
///
/// [`RateLimiter::default`] is *per key only*: 5 ms, doubled with every failure, up to 1000 s. client-go adds
/// one bucket of 10 per second (burst 100) for all keys together; behind it a hundred failing objects delay the
/// retries of every healthy one, which is the wrong thing for a controller whose queue is fair. Who wants it
/// has it in one call: [`RateLimiter::client_go_default`].
///
/// ```
/// use setpoint::queue::RateLimiter;
/// use std::time::Duration;
/// let mut limiter = RateLimiter::default();
/// assert_eq!(limiter.when(0, Duration::ZERO), Duration::from_millis(5));
/// assert_eq!(limiter.when(3, Duration::ZERO), Duration::from_millis(40));
/// assert_eq!(limiter.when(60, Duration::ZERO), Duration::from_secs(1000));
/// ```
#[derive(Debug)]
pub struct RateLimiter(Kind);

#[derive(Debug)]
enum Kind {
    Exponential { base: Duration, max: Duration },
    FastSlow { fast: Duration, slow: Duration, fast_attempts: u32 },
    Bucket(TokenBucket),
    MaxOf(Vec<RateLimiter>),
    MaxWait(Box<RateLimiter>, Duration),
}

impl Default for RateLimiter {
    fn default() -> Self {
        RateLimiter::exponential(BASE_DELAY, MAX_DELAY)
    }
}

impl RateLimiter {
    /// `base × 2^failures`, at most `max`.
    pub fn exponential(base: Duration, max: Duration) -> Self {
        RateLimiter(Kind::Exponential { base, max })
    }

    /// `fast` for the first `fast_attempts` failures, then `slow`.
    pub fn fast_slow(fast: Duration, slow: Duration, fast_attempts: u32) -> Self {
        RateLimiter(Kind::FastSlow { fast, slow, fast_attempts })
    }

    /// One bucket for all keys: `per_second` tokens, at most `burst` saved up.
    ///
    /// # Panics
    /// If `per_second` is not a positive number.
    pub fn bucket(per_second: f64, burst: u32) -> Self {
        RateLimiter(Kind::Bucket(TokenBucket::new(per_second, burst)))
    }

    /// The longest of several delays.
    pub fn max_of(limiters: impl IntoIterator<Item = RateLimiter>) -> Self {
        RateLimiter(Kind::MaxOf(limiters.into_iter().collect()))
    }

    /// Never more than `max`, whatever `self` says.
    #[must_use]
    pub fn max_wait(self, max: Duration) -> Self {
        RateLimiter(Kind::MaxWait(Box::new(self), max))
    }

    /// The limiter of client-go's `DefaultControllerRateLimiter`: the longer of 5 ms–1000 s per key and a bucket of
    /// 10 per second (burst 100) for all keys together.
    pub fn client_go_default() -> Self {
        RateLimiter::max_of([RateLimiter::default(), RateLimiter::bucket(10.0, 100)])
    }

    /// How long a key waits that was limited `failures` times before. `now` is the time since any fixed start.
    pub fn when(&mut self, failures: u32, now: Duration) -> Duration {
        match &mut self.0 {
            Kind::Exponential { base, max } => {
                let factor = 1u32.checked_shl(failures).filter(|_| failures < 31);
                factor.and_then(|factor| base.checked_mul(factor)).unwrap_or(*max).min(*max)
            }
            Kind::FastSlow { fast, slow, fast_attempts } => {
                if failures < *fast_attempts {
                    *fast
                } else {
                    *slow
                }
            }
            Kind::Bucket(bucket) => bucket.reserve(now),
            Kind::MaxOf(limiters) => {
                limiters.iter_mut().map(|limiter| limiter.when(failures, now)).max().unwrap_or_default()
            }
            Kind::MaxWait(limiter, max) => limiter.when(failures, now).min(*max),
        }
    }
}

/// A token bucket whose reservations may run into debt: each caller is told how long until its token exists.
#[derive(Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    updated: Duration,
}

impl TokenBucket {
    /// A full bucket.
    ///
    /// # Panics
    /// If `per_second` is not a positive number.
    pub fn new(per_second: f64, burst: u32) -> Self {
        assert!(per_second > 0.0 && per_second.is_finite(), "a bucket must refill");
        TokenBucket { per_second, burst: f64::from(burst), tokens: f64::from(burst), updated: Duration::ZERO }
    }

    fn refill(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.updated).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.burst);
        self.updated = self.updated.max(now);
    }

    /// Takes a token now or in the future; says how long until it is there.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-self.tokens / self.per_second)
    }

    /// Takes a token if one is there.
    pub fn try_take(&mut self, now: Duration) -> bool {
        self.refill(now);
        if self.tokens < 1.0 {
            return false;
        }
        self.tokens -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_client_go_is_the_longer_of_both() {
        let mut limiter = RateLimiter::client_go_default();
        for _ in 0..100 {
            assert_eq!(limiter.when(0, Duration::ZERO), BASE_DELAY);
        }
        assert_eq!(limiter.when(0, Duration::ZERO), Duration::from_millis(100));
        assert_eq!(limiter.when(0, Duration::ZERO), Duration::from_millis(200));
        assert_eq!(limiter.when(10, Duration::ZERO), Duration::from_millis(5120));
    }

    #[test]
    fn a_bucket_refills_up_to_its_burst() {
        let mut bucket = TokenBucket::new(2.0, 3);
        for _ in 0..3 {
            assert!(bucket.try_take(Duration::ZERO));
        }
        assert!(!bucket.try_take(Duration::ZERO));
        assert!(bucket.try_take(Duration::from_millis(500)));
        assert!(!bucket.try_take(Duration::from_millis(500)));
        let later = Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| bucket.try_take(later)).count(), 3);
    }

    #[test]
    fn fast_slow_and_max_wait() {
        let mut limiter = RateLimiter::fast_slow(Duration::from_millis(1), Duration::from_secs(9), 2)
            .max_wait(Duration::from_secs(4));
        let waits: Vec<u64> = (0..4).map(|n| limiter.when(n, Duration::ZERO).as_millis() as u64).collect();
        assert_eq!(waits, [1, 1, 4000, 4000]);
    }
}
