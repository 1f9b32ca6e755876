//! Read your own writes: no read and no reconcile acts on a cache that lacks a write of this process.
//!
//! The client notes each successful write for each informer that surely sees it, by informer and key. A read waits for the
//! writes under its key; a list waits for those of its kind in its namespace. A reconcile waits, before it starts, for the
//! writes of its predecessor and for every write of this process to its object.
//! Decision 0011 says why, decision 0018 why there are five states.
//!
//! # The life of one write
//!
//! ```text
//!            the server answers a write
//!                        │  Writes::wrote, deleted, deleted_collection
//!                        ▼
//!                 ┌─────────────┐   the cache shows it
//!                 │    noted    │──────────────────────────────┐
//!                 └─────────────┘                              │
//!      a wait of 5 s     │   │  the server went back to an     │
//!      ended in vain     │   │  older state, or more than      │
//!                        ▼   │  65,536 writes are noted        │
//!                 ┌─────────────┐ the cache shows it           │
//!                 │   overdue   │──────────────────────────────┤
//!                 └─────────────┘                              │
//!        a minute after  │   │                                 │
//!        the write       ▼   ▼                                 ▼
//!                 ┌─────────────┐ a list that began later ┌───────────┐
//!                 │  relisting  │────────────────────────▶│ forgotten │
//!                 └─────────────┘ has been applied        └───────────┘
//! ```
//!
//! A write that is not answered (`Writes::unanswered`) begins at *relisting*: its answer was lost, or its future was
//! dropped. The server may have acted on it, at a revision that nobody knows.
//!
//! - *Noted*: a read or a reconcile waits for the write, at most `consistency_timeout` (5 s).
//! - *Overdue*: nobody waits again. A read of it fails at once with [`ClientError::Stale`](crate::ClientError::Stale), and
//!   the reconcile is requeued with back-off.
//! - *Relisting*: revisions say nothing any more, or the watch lost the event. The number of the informer's relist counts.
//! - No write is forgotten before the cache shows it. Only the end of the informer or of its watch of the namespace ends
//!   the wait earlier: no read is answered from there.
//!
//! # The state that a cache must show
//!
//! `Expected` says when the cache shows a write. Each state belongs to an *epoch* of the cache, which ends when the server
//! goes back to an older state.
//!
//! | Expected | After | True once the cache |
//! | --- | --- | --- |
//! | `Seen` | a write to an object that the informer selects | has reached the revision of the answer |
//! | `Left` | a write to a cached object that the informer may not select any more | has the object in the state of the answer or a newer one, or has it no more |
//! | `Gone` | a deletion, or the removal of the last finalizer | has reached a revision at which the object existed, and has no object of this uid |
//! | `Ending` | a deletion of a collection | has no object of this uid, or a newer state of it whose deletion has begun |
//! | `Absent` | a deletion of an object that the cache never had, at an unknown revision | has no object of this uid. The object may still come, so the note stays for up to two minutes |
//!
//! There is one note for each key. A later write replaces it, but does not take back that an object is gone or is to go
//! (`Expected::after`): answers may arrive in another order than the server acted.
//!
//! # Never waited for
//!
//! - Answers without a resourceVersion, or with one that is no number, and dry runs.
//! - Writes to objects that the informer lacks and cannot be sure to see: in another namespace, with other labels, or where
//!   it selects by fields other than the name. If the informer has the object, it sees it change or leave.
//! - A write that changed nothing: its resourceVersion is that of a state that the cache has seen or is about to see.

mod pins;
mod unanswered;
mod writes;
mod delete_target;
mod pending;
mod expected;
mod written;

pub(super) use delete_target::DeleteTarget;
pub(super) use pending::Before;
pub(crate) use pending::Pending;
pub(super) use pins::Pin;
pub(crate) use pins::Pins;
pub use writes::CONSISTENCY_TIMEOUT;
pub(crate) use writes::Writes;
pub(super) use written::Written;
