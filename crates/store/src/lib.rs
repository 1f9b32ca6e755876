//! A store of bytes with one revision sequence: transactions, immutable snapshots, reads at old revisions,
//! watches, expiry, and a durable log.
//!
//! One index in memory serves all reads. A backend is only a log under the index: a write becomes visible, to reads
//! and watches alike, once the log has made it durable. The memory backend has no log.
//!
//! ```
//! use setpoint_store::{KeyRange, Options, Store, TxnError};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::memory(Options::default());
//! let mut watch = store.watch(KeyRange::prefix("/color/"), store.revision())?;
//!
//! // Create the key unless it exists. If a key that the decision read changes before the commit, it runs again.
//! let created = store
//!     .transact(|snapshot, txn| match snapshot.get(b"/color/sky") {
//!         Some(_) => Err("it exists"),
//!         None => {
//!             txn.put("/color/sky", "blue");
//!             Ok(())
//!         }
//!     })
//!     .await?;
//!
//! let batch = watch.next().await?;
//! assert_eq!(batch.events[0].revision, created.revision);
//! assert_eq!(store.snapshot().get(b"/color/sky").unwrap().value, "blue");
//! assert!(store.snapshot_at(created.revision - 1)?.get(b"/color/sky").is_none());
//! # Ok(())
//! # }
//! ```

mod store;
mod backend;
mod watch;
mod shared;
mod log_handle;
mod log;
pub mod disk;
mod state;
mod group;
mod bell;
mod history;
mod error;
mod options;
mod snapshot;
mod past;
mod root;
mod key;
mod txn;
mod entry;

pub use disk::{Directory, Disk, DiskFile};
pub use entry::{Entry, Event};
pub use error::{Cut, Jump, OpenError, ReadError, Recovery, SaveError, TxnError, WatchError, WriteError};
pub use key::KeyRange;
pub use log::RESERVED_REVISIONS;
pub use options::{CHECKPOINT_SLICE_BYTES, HISTORY_AGE, HISTORY_BYTES, HISTORY_EVENTS, LOG_BYTES, Options};
pub use past::Range;
pub use snapshot::Snapshot;
pub use store::Store;
pub use txn::{Committed, Put, Txn};
pub use watch::{BATCH_EVENTS, Batch, Watch};

/// A point in the one sequence of changes. Every transaction that writes gets the next one.
pub type Revision = u64;

/// A moment on the owner's clock, in milliseconds. The store has no clock of its own.
pub type Millis = u64;

type WriteResult = Result<(), WriteError>;

/// The revision of a store in which nothing has happened.
pub const FIRST_REVISION: Revision = 1;
