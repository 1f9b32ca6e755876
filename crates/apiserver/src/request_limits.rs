//! Limits of requests: their deadline, their number in flight, and the thread for heavy ones.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::go_format::quote;
use setpoint_machinery::Interrupt;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::error::{ApiError, Result};
use crate::options::Options;
use crate::request::{RequestInfo, Verb};
use crate::user::{MASTERS, UserInfo};

/// The number of heavy requests that run at the same time. The others wait without blocking light requests.
pub(crate) const MAX_HEAVY: usize = 4;

/// The limits of requests in flight.
pub(crate) struct Limits {
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) mutating: Arc<Semaphore>,
    pub(crate) heavy: Arc<Semaphore>,
}

/// All permits for such requests are taken.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Limits {
    pub(crate) fn new(options: &Options) -> Self {
        let places = |most: usize| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Limits {
            reading: places(options.requests.reads),
            mutating: places(options.requests.writes),
            heavy: places(MAX_HEAVY),
        }
    }

    /// A permit for the request. `None` if the request needs none: it is long-running, or it is an administrator's
    /// and no permit is left.
    ///
    /// # Errors
    /// All permits are taken.
    pub(crate) fn enter(
        &self,
        info: &RequestInfo,
        user: &UserInfo,
    ) -> std::result::Result<Option<OwnedSemaphorePermit>, TooMany> {
        if is_long_running(info) {
            return Ok(None);
        }
        // kube-apiserver counts every request that is no read as mutating, also unknown verbs.
        let reads = matches!(info.verb, Verb::Get | Verb::List | Verb::Watch);
        let places = if reads { &self.reading } else { &self.mutating };
        match places.clone().try_acquire_owned() {
            Ok(place) => Ok(Some(place)),
            Err(_) if user.is_in(MASTERS) => Ok(None),
            Err(_) => Err(TooMany),
        }
    }
}

/// Whether a request has no time limit, as in kube-apiserver.
pub(crate) fn is_long_running(info: &RequestInfo) -> bool {
    const SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];
    matches!(info.verb, Verb::Watch | Verb::Proxy)
        || (info.is_resource && SUBRESOURCES.contains(&info.subresource.as_str()))
}

/// The time limit of a request, or `None` for a long-running one. A client may ask for less than `most`.
pub(crate) fn timeout(info: &RequestInfo, most: Duration) -> Result<Option<Duration>> {
    if is_long_running(info) {
        return Ok(None);
    }
    let Some(text) = info.query.get("timeout") else { return Ok(Some(most)) };
    let wanted = go_duration(text).map_err(|why| {
        ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}"))
    })?;
    Ok(Some(wanted.filter(|wanted| !wanted.is_zero() && *wanted < most).unwrap_or(most)))
}

/// A text that is no duration, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// A part of the text is no number.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number has no unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    NoUnit(String),
    /// Go does not know the unit.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// A duration as Go reads it, or `None` if it is negative.
///
/// # Errors
/// The text is no duration.
pub fn go_duration(text: &str) -> std::result::Result<Option<Duration>, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let number: f64 = match number {
            "" | "." => return Err(invalid()),
            number => number.parse().map_err(|_| invalid())?,
        };
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        seconds += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "" => return Err(DurationError::NoUnit(text.to_owned())),
                unit => {
                    return Err(DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
                }
            };
        rest = tail;
    }
    // Go counts nanoseconds in 63 bits.
    if seconds > 9_223_372_036.854 {
        return Err(invalid());
    }
    Ok((!negative).then(|| Duration::from_secs_f64(seconds)))
}

/// Marks a request that came through a socket: its connection shares a thread with others.
#[derive(Clone, Copy)]
pub(crate) struct FromSocket;

/// The time by which a request must be answered.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(pub(crate) Instant);

/// The circumstances of a request's computation.
#[derive(Clone, Default)]
pub(crate) struct Work {
    /// The deadline after which no client waits for the answer; `None` for a long-running request.
    deadline: Option<Instant>,
    /// Whether a long computation would keep a thread from its connections.
    pub(crate) shares_thread: bool,
    /// Raised once no client waits for the answer. Long loops look at it.
    pub(crate) interrupt: Interrupt,
}

impl Work {
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        // A runtime with one thread has no other: a heavy request delays light ones there.
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        let has_others = matches!(flavor, Ok(RuntimeFlavor::MultiThread));
        Work {
            deadline: extensions.get::<Deadline>().map(|deadline| deadline.0),
            shares_thread: has_others && extensions.get::<FromSocket>().is_some(),
            interrupt: Interrupt::default(),
        }
    }

    /// Fails if no client waits for the answer any more.
    ///
    /// # Errors
    /// The deadline has passed, or the client has left.
    pub(crate) fn check(&self) -> Result<()> {
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(ApiError::timeout()),
            _ => self.check_interrupt(),
        }
    }

    /// Like [`Work::check`], without a look at the clock: what a step came to is void if it was interrupted.
    ///
    /// # Errors
    /// The request has ended.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.is_raised() { Err(ApiError::timeout()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of Go 1.26's `time.ParseDuration`.
    #[test]
    fn durations_are_read_as_go_reads_them() {
        let ms = |ms| Ok(Some(Duration::from_millis(ms)));
        for (text, expected) in [
            ("1s", ms(1000)),
            ("1m1.5s", ms(61_500)),
            ("34ms", ms(34)),
            (".5h", ms(1_800_000)),
            ("0", ms(0)),
            ("-1s", Ok(None)),
            ("30", Err("time: missing unit in duration \"30\"".to_owned())),
            ("x", Err("time: invalid duration \"x\"".to_owned())),
            ("1x", Err("time: unknown unit \"x\" in duration \"1x\"".to_owned())),
            (".s", Err("time: invalid duration \".s\"".to_owned())),
            ("9999999h", Err("time: invalid duration \"9999999h\"".to_owned())),
        ] {
            assert_eq!(go_duration(text).map_err(|error| error.to_string()), expected, "{text}");
        }
    }
}
