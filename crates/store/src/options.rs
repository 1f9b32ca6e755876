//! The bounds of a store.

use std::time::Duration;

/// History kept by default: this many changes of a key…
pub const HISTORY_EVENTS: usize = 100_000;
/// …and this many bytes of replaced values and bookkeeping…
pub const HISTORY_BYTES: usize = 128 << 20;
/// …and this long, for owners that call [`Store::age`](crate::Store::age).
pub const HISTORY_AGE: Duration = Duration::from_secs(10 * 60);

/// Maximum size of all keys, values and history together.
pub const QUOTA_BYTES: u64 = 2 << 30;

/// File backend: the log may grow to this size, or to the size of the state if that is larger, before a checkpoint
/// replaces it.
pub const LOG_BYTES: u64 = 64 << 20;

/// File backend: how much of a checkpoint is written, and synced, between two commits.
pub const CHECKPOINT_SLICE_BYTES: usize = 256 << 10;

/// The bounds of a store. When history exceeds any bound, its floor rises: older revisions can no longer be read, and
/// a watcher that had not read the dropped events is closed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most changes kept.
    pub history_events: usize,
    /// The most bytes kept for history alone.
    pub history_bytes: usize,
    /// Maximum age of history. [`Store::age`](crate::Store::age) supplies the time.
    pub history_age: Duration,
    /// The most bytes stored, with what history keeps: what would pass it is refused. What takes the place of
    /// something and is hardly larger may go on into a sixteenth more: a deletion that is announced, a status.
    pub quota_bytes: u64,
    /// File backend: whether an acknowledged write has been synced to the disk. Without it a crash of the machine
    /// loses the latest writes (never the order, and no revision is used twice).
    pub fsync: bool,
    /// File backend: how long the log may grow before a checkpoint takes its place, at least.
    pub log_bytes: u64,
    /// File backend: how much of a checkpoint is written between two commits, so that none waits long for it.
    pub checkpoint_slice_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            history_events: HISTORY_EVENTS,
            history_bytes: HISTORY_BYTES,
            history_age: HISTORY_AGE,
            quota_bytes: QUOTA_BYTES,
            fsync: true,
            log_bytes: LOG_BYTES,
            checkpoint_slice_bytes: CHECKPOINT_SLICE_BYTES,
        }
    }
}
