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
    /// What is stored has reached its bound: this write is refused as a whole. Reads and deletions go on, and writes
    /// as soon as there is room.
    #[error("the quota of the store is reached")]
    Quota,
    /// A write or sync failed in a way that leaves what is on the disk unknown. Reads go on; writing has ended
    /// until the store is opened anew.
    #[error("writing has ended: {0}")]
    Failed(Arc<std::io::Error>),
    /// The store was shut down or dropped.
    #[error("the store is closed")]
    Closed,
}

/// Why a store could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another store of this one, uses the folder.
    #[error("another process has this data directory open")]
    Locked,
    /// A file is not as it was written. Nothing has been changed.
    #[error("{file} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A file was written by another version of this program.
    #[error("{file} has format version {found}, which this program does not read")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u8,
    },
    /// The disk said no.
    #[error("could not {doing} {file}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        file: String,
        /// What the disk said.
        source: std::io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(doing: &'static str, file: &str, source: std::io::Error) -> Self {
        OpenError::Io { doing, file: file.to_owned(), source }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> Self {
        OpenError::Damaged { file: file.to_owned(), offset, what }
    }
}

/// What opening a store found that an orderly stop does not leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The unfinished write that was cut off the end of the log. It was never acknowledged, unless the store ran
    /// without fsync.
    pub cut: Option<Cut>,
    /// How far the revision was moved, because a run without fsync did not end in order.
    pub jumped: Option<Jump>,
}

/// An unfinished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The file that it was in.
    pub file: String,
    /// Where it began.
    pub offset: u64,
    /// How many bytes of it there were.
    pub bytes: u64,
}

/// A move of the revision past all that may have been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The newest revision found.
    pub from: Revision,
    /// The revision now.
    pub to: Revision,
}
