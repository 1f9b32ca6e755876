//! Writing a state to a file of its own, a slice at a time, so that the log before it can go.

use std::io;

use bytes::Bytes;

use super::frame::{self, CHECKPOINT_MAGIC, FileHeader, Kind};
use super::names;
use super::record::put_entry;
use super::varint::put_number;
use crate::disk::{Disk, DiskFile};
use crate::key::KeyRange;
use crate::root::Root;

pub(crate) struct Checkpoint {
    root: Root,
    header: FileHeader,
    file: Box<dyn DiskFile>,
    sequence: u64,
    /// The last key written.
    last: Option<Bytes>,
}

impl Checkpoint {
    pub(crate) fn begin(disk: &dyn Disk, generation: u64, root: Root) -> io::Result<Self> {
        let header =
            FileHeader { magic: CHECKPOINT_MAGIC, generation, salt: disk.salt(), revision: root.revision };
        let mut file = disk.create(&names::temporary(&names::checkpoint(generation)))?;
        file.append(&header.encode())?;
        Ok(Checkpoint { root, header, file, sequence: 1, last: None })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Writes and syncs about `size` bytes more; true when all entries have been written.
    pub(crate) fn slice(&mut self, size: usize) -> Result<bool, StepError> {
        let mut bytes = frame::begin();
        let after = self.last.as_ref().map(|key| [key, b"\0".as_slice()].concat());
        let mut last = None;
        for entry in self.root.range(&KeyRange::all(), after.as_deref()) {
            put_entry(&mut bytes, entry);
            last = Some(entry.key.clone());
            if bytes.len() >= size {
                break;
            }
        }
        let done = last.is_none();
        if done {
            put_number(&mut bytes, self.root.len() as u64);
        } else {
            self.last = last;
        }
        let kind = if done { Kind::End } else { Kind::Entries };
        frame::seal(&mut bytes, self.header.salt, self.sequence, kind, false);
        self.sequence += 1;
        self.file.append(&bytes).map_err(StepError::Write)?;
        self.file.sync().map_err(StepError::Sync)?;
        Ok(done)
    }

    /// Renames the complete checkpoint to its final name. From here on the next open starts from it.
    pub(crate) fn finish(self, disk: &dyn Disk) -> Result<(), StepError> {
        let name = names::checkpoint(self.header.generation);
        disk.rename(&names::temporary(&name), &name).map_err(StepError::Write)?;
        disk.sync_dir().map_err(StepError::Sync)
    }
}

/// A failed step, by its consequence: a failed sync leaves the disk's contents unknown.
#[derive(Debug)]
pub(crate) enum StepError {
    Write(io::Error),
    Sync(io::Error),
}
