//! The writing end of the files. Blocking; everything here happens on the store's own thread, or inline on a disk
//! that never blocks.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::checkpoint::{Checkpoint, StepError};
use super::frame::{self, Kind};
use super::names;
use super::record::put_transactions;
use super::recover::{OpenLog, Recovered, create_log, recover};
use super::varint::put_number;
use crate::disk::{Disk, is_full};
use crate::entry::Event;
use crate::error::{OpenError, Recovery, WriteError};
use crate::options::Options;
use crate::root::Root;
use crate::state::State;
use crate::{Revision, WriteResult};

/// Without fsync: the number of revisions that one synced reservation covers. After an unclean stop the revision
/// jumps past the reservation, because clients may have seen any revision of it.
pub const RESERVED_REVISIONS: Revision = 100_000;

pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    log: OpenLog,
    fsync: bool,
    /// Whether all that the log has is synced.
    synced: bool,
    /// Whether the log was cut since it was last synced. If so, a crash may bring back the cut bytes.
    cut: bool,
    /// Without fsync: revisions up to here have been reserved.
    reserved: Revision,
    /// The log may grow to this before a checkpoint replaces it.
    log_bytes: u64,
    slice_bytes: usize,
    /// No checkpoint before the log has this many bytes: set when one could not be made.
    checkpoint_at: u64,
    checkpoint: Option<Checkpoint>,
    /// Other processes are kept out until this is dropped.
    _lock: Box<dyn Send + Sync>,
}

/// A store's files, opened.
pub(crate) struct Opened {
    pub(crate) state: State,
    pub(crate) blobs: BTreeMap<String, Bytes>,
    pub(crate) writer: Writer,
    pub(crate) report: Recovery,
}

impl Writer {
    pub(crate) fn open(disk: Arc<dyn Disk>, options: &Options) -> Result<Opened, OpenError> {
        let lock = disk.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked,
            _ => OpenError::io("lock", "the folder", error),
        })?;
        let Recovered { state, blobs, log, report } = recover(&*disk, options)?;
        let writer = Writer {
            disk,
            log,
            fsync: options.fsync,
            synced: true,
            cut: false,
            reserved: 0,
            log_bytes: options.log_bytes,
            slice_bytes: options.checkpoint_slice_bytes,
            checkpoint_at: 0,
            checkpoint: None,
            _lock: lock,
        };
        Ok(Opened { state, blobs, writer, report })
    }

    /// Makes the transactions that `events` came from durable, all of them or none.
    pub(crate) fn commit(&mut self, events: &[Arc<Event>]) -> WriteResult {
        let Some(last) = events.last() else { return Ok(()) };
        if !self.fsync && last.revision > self.reserved {
            self.reserve(last.revision + RESERVED_REVISIONS)?;
        }
        let mut frame = frame::begin();
        put_transactions(&mut frame, events);
        self.append(frame, Kind::Commit)?;
        if self.fsync { self.sync() } else { Ok(()) }
    }

    fn reserve(&mut self, upto: Revision) -> WriteResult {
        let mut frame = frame::begin();
        put_number(&mut frame, upto);
        self.append(frame, Kind::Reserve)?;
        self.sync()?;
        self.reserved = upto;
        Ok(())
    }

    fn append(&mut self, mut frame: Vec<u8>, kind: Kind) -> WriteResult {
        frame::seal(&mut frame, self.log.header.salt, self.log.next_sequence, kind, self.synced);
        match self.log.file.append(&frame) {
            Ok(()) => {
                self.log.len += frame.len() as u64;
                self.log.next_sequence += 1;
                self.synced = false;
                Ok(())
            }
            // Whatever part of the frame is there goes, so that the next one follows the last whole one.
            Err(error) if is_full(&error) => {
                self.cut = true;
                self.log.file.truncate(self.log.len).map_err(failed)?;
                Err(WriteError::Full(Arc::new(error)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn sync(&mut self) -> WriteResult {
        // After a failed sync the system may have dropped the unwritten bytes, and a second sync would succeed
        // without them. So there is no second sync.
        self.log.file.sync().map_err(failed)?;
        (self.synced, self.cut) = (true, false);
        Ok(())
    }

    /// Ends the log in order: nothing was lost, and no revision need be jumped over.
    pub(crate) fn close(mut self) -> WriteResult {
        if !self.synced {
            // Sync first, so that the last frame can say so and the next open need not write everything again.
            self.sync()?;
        }
        self.append(frame::begin(), Kind::Close)?;
        self.sync()
    }

    /// Does one step of replacing a long log by a checkpoint of `root`, the state that the log has led to. True when
    /// there is more to do. Only an error that ends writing is returned.
    pub(crate) fn maintain(&mut self, root: &Root) -> Result<bool, WriteError> {
        if let Some(checkpoint) = &mut self.checkpoint {
            let step = match checkpoint.slice(self.slice_bytes) {
                Ok(false) => return Ok(true),
                Ok(true) => self.finish_checkpoint(),
                Err(error) => Err(error),
            };
            return self.step_done(step);
        }
        let used = self.log.earlier + self.log.len;
        if used < self.log_bytes.max(root.bytes()).max(self.checkpoint_at) {
            return Ok(false);
        }
        let step = self.begin_checkpoint(root);
        self.step_done(step)
    }

    fn step_done(&mut self, step: Result<(), StepError>) -> Result<bool, WriteError> {
        match step {
            Ok(()) => Ok(self.checkpoint.is_some()),
            Err(StepError::Sync(error)) => Err(failed(error)),
            Err(StepError::Write(error)) => {
                // The log has everything still; it only grows longer.
                tracing::warn!(%error, "could not write a checkpoint; retrying when the log has doubled");
                self.checkpoint_at = (self.log.earlier + self.log.len).saturating_mul(2);
                if let Some(checkpoint) = self.checkpoint.take() {
                    let name = names::temporary(&names::checkpoint(checkpoint.generation()));
                    let _ = self.disk.remove(&name);
                }
                Ok(false)
            }
        }
    }

    /// Turns to a new log, and begins to write down the state that it follows.
    fn begin_checkpoint(&mut self, root: &Root) -> Result<(), StepError> {
        // A log that is followed by another must be whole.
        if !self.synced || self.cut {
            self.log.file.sync().map_err(StepError::Sync)?;
            (self.synced, self.cut) = (true, false);
        }
        let generation = self.log.header.generation + 1;
        let created = create_log(&*self.disk, generation, root.revision);
        let log = created.map_err(|error| match error {
            OpenError::Io { doing: "sync", source, .. } => StepError::Sync(source),
            OpenError::Io { source, .. } => StepError::Write(source),
            other => StepError::Write(io::Error::other(other)),
        })?;
        let (earlier, oldest) = (self.log.earlier + self.log.len, self.log.oldest);
        self.log = OpenLog { earlier, oldest, ..log };
        // The reservation is in the previous log, which is about to be removed.
        self.reserved = 0;
        let checkpoint = Checkpoint::begin(&*self.disk, generation, root.clone()).map_err(|error| {
            let _ = self.disk.remove(&names::temporary(&names::checkpoint(generation)));
            StepError::Write(error)
        })?;
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    fn finish_checkpoint(&mut self) -> Result<(), StepError> {
        let checkpoint = self.checkpoint.take().expect("one is being written");
        let generation = checkpoint.generation();
        checkpoint.finish(&*self.disk)?;
        for old in self.log.oldest..generation {
            // Found and removed at the next open, if not now.
            let _ = self.disk.remove(&names::log(old));
            let _ = self.disk.remove(&names::checkpoint(old));
        }
        self.log.earlier = 0;
        self.log.oldest = generation;
        self.checkpoint_at = 0;
        Ok(())
    }

    /// Replaces the blob by `bytes`, as a whole or not at all.
    pub(crate) fn put_blob(&mut self, blob: &str, bytes: &[u8]) -> WriteResult {
        let name = names::blob(blob);
        let temporary = names::temporary(&name);
        let write = || -> io::Result<_> {
            let mut file = self.disk.create(&temporary)?;
            file.append(bytes)?;
            Ok(file)
        };
        let mut file = write().map_err(|error| {
            let _ = self.disk.remove(&temporary);
            if is_full(&error) { WriteError::Full(Arc::new(error)) } else { failed(error) }
        })?;
        file.sync().map_err(failed)?;
        self.disk.rename(&temporary, &name).map_err(failed)?;
        self.disk.sync_dir().map_err(failed)
    }
}

fn failed(error: io::Error) -> WriteError {
    WriteError::Failed(Arc::new(error))
}
