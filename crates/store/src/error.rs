//! The errors of the store.

use std::sync::Arc;

use thiserror::Error;

use crate::Revision;

/// A revision that cannot be read or watched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The revision is below the floor: its history was compacted.
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

/// The reason why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The watcher was too slow: events that it had not read were compacted.
    #[error("the watch fell behind: the oldest revision that can be watched from is {floor}")]
    Compacted {
        /// The oldest revision that can be watched from.
        floor: Revision,
    },
    /// The store was shut down or dropped.
    #[error("the store is closed")]
    Closed,
}

/// The reason why a transaction did not commit.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum TxnError<E> {
    /// The decision returned this error.
    #[error("{0}")]
    Decide(E),
    /// The write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The reason why a write failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The disk is full: this write is refused as a whole. Reads go on, and so do writes once there is room.
    #[error("the disk is full: {0}")]
    Full(Arc<std::io::Error>),
    /// The store has reached its quota: this write is refused as a whole. Reads and deletions go on, and so do writes
    /// once there is room.
    #[error("the quota of the store is reached")]
    Quota,
    /// A write or sync failed, and the contents of the disk are unknown. Reads go on. Writes fail until the store is
    /// opened again.
    #[error("writing has ended: {0}")]
    Failed(Arc<std::io::Error>),
    /// The store was shut down or dropped.
    #[error("the store is closed")]
    Closed,
}

/// The reason why a store could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store of this process, uses the folder.
    #[error("another process has this data directory open")]
    Locked,
    /// A file is damaged. Opening changed nothing.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The byte offset of the damage.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
    /// Another version of this program wrote a file.
    #[error("{file} has format version {found}, which this program does not read")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u8,
    },
    /// The disk returned an error.
    #[error("could not {doing} {file}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file of the operation.
        file: String,
        /// The error of the disk.
        source: std::io::Error,
    },
}

/// The reason why a copy of a store could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The folder has files. A copy replaces nothing.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The disk returned an error. What was written so far is no store.
    #[error(transparent)]
    Disk(#[from] std::io::Error),
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, file: &str, source: std::io::Error) -> Self {
        OpenError::Io { doing, file: file.to_owned(), source }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> Self {
        OpenError::Damaged { file: file.to_owned(), offset, what }
    }
}

/// Findings of an open that a clean shutdown does not leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The unfinished write that was cut off the end of the log. It was never acknowledged, unless the store ran
    /// without fsync.
    pub cut: Option<Cut>,
    /// The jump of the revision, if a run without fsync did not end with a clean shutdown.
    pub jumped: Option<Jump>,
}

/// An unfinished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file that contained it.
    pub file: String,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A move of the revision past all revisions that clients may have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The newest revision found.
    pub from: Revision,
    /// The revision now.
    pub to: Revision,
}
