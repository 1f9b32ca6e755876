//! The bounds of a store.

use std::time::Duration;

/// History kept by default: this many changes of a key…
pub const HISTORY_EVENTS: usize = 100_000;
/// …and this many bytes of replaced values and bookkeeping…
pub const HISTORY_BYTES: usize = 128 << 20;
/// …and this long, for owners that call [`Store::age`](crate::Store::age).
pub const HISTORY_AGE: Duration = Duration::from_secs(10 * 60);

/// How a store is bounded. When history exceeds any bound its floor rises: older revisions can no longer be read,
/// and a watcher that had not read the events dropped is closed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most changes kept.
    pub history_events: usize,
    /// The most bytes kept for history alone.
    pub history_bytes: usize,
    /// How long history is kept, as told by [`Store::age`](crate::Store::age).
    pub history_age: Duration,
    /// File backend: whether an acknowledged write has been synced to the disk. Without it a crash of the machine
    /// loses the latest writes (never the order, and no revision is used twice).
    pub fsync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            history_events: HISTORY_EVENTS,
            history_bytes: HISTORY_BYTES,
            history_age: HISTORY_AGE,
            fsync: true,
        }
    }
}
