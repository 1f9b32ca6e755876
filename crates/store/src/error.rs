//! Why the store said no.

use std::sync::Arc;

use thiserror::Error;

use crate::Revision;

/// A revision that cannot be read or watched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The revision is below the floor: its history is gone.
    #[error("revision has been compacted: the oldest that can be read is {floor}")]
    Compacted {
        /// The oldest revision that can be read.
        floor: Revision,
    },
    /// The revision has not happened yet.
    #[error("revision is in the future: the newest is {current}")]
    Future {
        /// The newest revision.
        current: Revision,
    },
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The watcher was so slow that events which it had not read were compacted away.
    #[error("the watch fell behind: the oldest revision that can be watched from is {floor}")]
    Compacted {
        /// The oldest revision that can be watched from.
        floor: Revision,
    },
    /// The store was shut down or dropped.
    #[error("the store is closed")]
    Closed,
}

/// Why a transaction did not commit.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TxnError<E> {
    /// The decision itself was an error.
    #[error("{0}")]
    Decide(E),
    /// The store could not write.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why nothing could be written.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No room on the disk: this write is refused as a whole. Reads go on, and writes as soon as there is room.
    #[error("the disk is full: {0}")]
    Full(Arc<std::io::Error>),
    /// A write or sync failed in a way that leaves what is on the disk unknown. Reads go on; writing has ended
    /// until the store is opened anew.
    #[error("writing has ended: {0}")]
    Failed(Arc<std::io::Error>),
    /// The store was shut down or dropped.
    #[error("the store is closed")]
    Closed,
}
