//! A copy of a state in files of its own, from which another store goes on.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::checkpoint::{Checkpoint, StepError};
use super::names;
use super::recover::{FIRST_GENERATION, create_log};
use crate::disk::{Disk, LOCK_FILE};
use crate::error::{OpenError, SaveError};
use crate::root::Root;

/// Bytes between two syncs. Nobody waits for a slice, so it may be large.
const SLICE_BYTES: usize = 4 << 20;

/// Writes a state and its blobs to an empty disk. The checkpoint gets its name last: an interrupted copy lacks the log
/// of the first generation, and no store opens it.
pub(crate) fn save(disk: &dyn Disk, root: Root, blobs: &BTreeMap<String, Bytes>) -> Result<(), SaveError> {
    let _lock = disk.lock()?;
    if disk.list()?.iter().any(|name| name != LOCK_FILE) {
        return Err(SaveError::NotEmpty);
    }
    let generation = FIRST_GENERATION + 1;
    let log = create_log(disk, generation, root.revision).map_err(|error| match error {
        OpenError::Io { source, .. } => SaveError::Disk(source),
        other => SaveError::Disk(std::io::Error::other(other)),
    });
    drop(log?);
    for (name, bytes) in blobs {
        let mut file = disk.create(&names::blob(name))?;
        file.append(bytes)?;
        file.sync()?;
    }
    let mut checkpoint = Checkpoint::begin(disk, generation, root)?;
    while !checkpoint.slice(SLICE_BYTES)? {}
    Ok(checkpoint.finish(disk)?)
}

impl From<StepError> for SaveError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Write(error) | StepError::Sync(error) => SaveError::Disk(error),
        }
    }
}
