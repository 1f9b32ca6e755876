//! The handle through which everything learns the wall-clock time.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time. Cheap to clone; whoever assembles the process decides what stands behind it.
///
/// ```
/// use setpoint_api::Clock;
/// let noon = "2026-11-15T12:00:00Z".parse().unwrap();
/// let clock = Clock::new(move || noon);
/// assert_eq!(clock.now(), noon);
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now` each time.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// The present moment as `metadata.creationTimestamp` and its like write it: RFC 3339, whole seconds.
    pub fn now_rfc3339(&self) -> String {
        rfc3339_seconds(self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// `metav1.Time`: RFC 3339 in UTC with whole seconds.
pub fn rfc3339_seconds(time: Timestamp) -> String {
    let seconds = Timestamp::from_second(time.as_second()).expect("a timestamp's own second is in range");
    seconds.to_string()
}

/// `metav1.MicroTime`: RFC 3339 in UTC with exactly six fractional digits.
pub fn rfc3339_micros(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        let time: Timestamp = "2026-11-15T12:00:00.123456789Z".parse().unwrap();
        assert_eq!(rfc3339_seconds(time), "2026-11-15T12:00:00Z");
        assert_eq!(rfc3339_micros(time), "2026-11-15T12:00:00.123456Z");
    }
}
