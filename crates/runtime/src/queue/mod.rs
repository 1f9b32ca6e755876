//! The work queue: client-go's contract, with priorities, fairness between namespaces and reasons.
//!
//! # Contract
//!
//! 1. **One worker per key.** Between [`Queue::get`] and [`Queue::done`] no other `get` returns the key.
//! 2. **Adds collapse.** Any number of adds of a key that is queued mean one run; any number of adds while it
//!    runs mean exactly one more run, queued when the present one is done.
//! 3. **Nothing is lost.** A key that was added is handed out, also after [`Queue::shut_down`]; only adds after
//!    the shutdown, and delays that had not ended by then, are dropped.
//! 4. **Delays keep the earliest.** A key waits at most once; of several `add_after` the earliest end counts, and the
//!    run answers the reasons of all of them.
//!    A delayed key that is also added at once runs at once, and again when its delay ends. A delay of zero is
//!    an add.
//! 5. **Failures are counted per key** by `add_rate_limited` and reset only by `forget`.
//! 6. **Order.** A key of higher priority goes first. Among equals the flows (namespaces, if fairness is on)
//!    take turns, and each flow is first in, first out. With one flow and one priority that is client-go's FIFO.
//!    A key that is added again with a higher priority moves to the end of that priority; a lower one never
//!    moves it.
//! 7. **Nobody starves.** While a key of lower priority has waited longer than the ageing time
//!    ([`AGEING`]), one of every [`AGED_SHARE`] gets takes the one that has waited longest.
//! 8. **Drain.** [`WorkQueue::shut_down_with_drain`] returns when nothing is queued or running; keys that were
//!    added again while they ran are still handed out. (client-go says so too, and returns when nothing is running:
//!    keys that are queued then may be left. Here somebody must go on taking them.) Several may wait; a later [`WorkQueue::shut_down`] ends the
//!    wait of all of them.
//!
//! # Shape
//!
//! [`Queue`] is the pure core: time is an argument, nothing locks, waits or spawns. What it knows of a key lies in a place
//! that is used again as soon as nothing is left to do for the key, so that adding allocates nothing and a short queue
//! stays in the processor's cache whatever the number of keys; the order of a long one lies in memory in that order, and
//! the next keys are brought near together; the table that keys are found by learns of forgotten ones when it comes by;
//! every step except the delays' heap costs the same whatever the length of the queue, but for making room now and then.
//! [`WorkQueue`] is the thin async shell that workers share: who adds hashes the key and leaves it in an inbox, who works
//! empties the inbox, so that neither waits for the other; a worker is woken only if it sleeps, and wakes the next one
//! itself. The clock is read for every key only where somebody [measures](crate::metrics::Metrics::watch_queue) the queue
//! or keys have priorities: it costs as much as half of all the rest.

mod item;
mod shell;
#[cfg(test)]
mod shell_tests;
mod core;
mod inbox;
mod keys;
mod limiter;
mod ready;
mod line;
mod stats;
mod table;
mod slots;
mod delay;
mod reason;
#[cfg(test)]
mod tests;

pub use self::core::{AGEING, Queue, QueueOptions, Run};
pub use item::Item;
pub use limiter::{BASE_DELAY, MAX_DELAY, RateLimiter, TokenBucket};
pub use ready::{AGED_SHARE, MAX_LEVELS};
pub use reason::{REASONS_PER_KEY, Reason, Reasons, SourceName, Trigger};
pub use shell::WorkQueue;
pub use slots::KeyId;
pub use stats::{BUCKETS, Histogram, Stats};

pub(crate) use shell::QueueReport;

/// How urgent a key is. Higher goes first; any number is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Priority {
    /// Work of the initial list and of resyncs: below every live event.
    pub const LOW: Priority = Priority(-100);
    /// Live events.
    pub const DEFAULT: Priority = Priority(0);
}
