//! Rebuilds the state from files: finds the newest checkpoint, replays the logs after it, cuts off a write that a
//! crash left unfinished, and refuses to guess at anything else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::frame::{self, CHECKPOINT_MAGIC, FILE_HEADER, FRAME_HEADER, FileHeader, Frame, Kind, LOG_MAGIC};
use super::names::{self, Name};
use super::record::{take_entry, take_transaction};
use super::varint::take_number;
use crate::disk::{Disk, DiskFile};
use crate::error::{Cut, Jump, OpenError, Recovery};
use crate::options::Options;
use crate::root::Root;
use crate::state::{State, materialise};
use crate::{FIRST_REVISION, Revision};

/// The generation that begins with an empty store, and has no checkpoint.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// Bytes of a log that are held in memory while they are written again.
const REWRITE_BYTES: usize = 1 << 20;

/// The contents of the files.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) blobs: BTreeMap<String, Bytes>,
    pub(crate) log: OpenLog,
    pub(crate) report: Recovery,
}

/// The log to go on writing.
pub(crate) struct OpenLog {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) header: FileHeader,
    pub(crate) len: u64,
    pub(crate) next_sequence: u64,
    /// Bytes of earlier logs that no checkpoint has replaced yet.
    pub(crate) earlier: u64,
    /// The first generation whose files are still needed.
    pub(crate) oldest: u64,
}

struct Replay {
    state: State,
    /// Reservations of runs that did not shut down cleanly: clients may have seen revisions up to these.
    reserved: Vec<Revision>,
}

struct Replayed {
    /// End of the last whole frame.
    end: u64,
    next_sequence: u64,
    /// Everything before this is known to have been synced.
    synced: u64,
}

struct Files {
    logs: BTreeSet<u64>,
    checkpoints: BTreeSet<u64>,
    temporary: Vec<String>,
    blobs: Vec<String>,
}

pub(crate) fn recover(disk: &dyn Disk, options: &Options) -> Result<Recovered, OpenError> {
    let files = list(disk)?;
    let oldest = files.checkpoints.last().copied().unwrap_or(FIRST_GENERATION);
    let root = match files.checkpoints.last() {
        Some(generation) => read_checkpoint(disk, *generation)?,
        None => Root::empty(FIRST_REVISION),
    };
    let mut replay = Replay { state: State::new(root, options.clone(), true), reserved: Vec::new() };
    let newest = newest_log(disk, &files, oldest)?;
    let mut earlier = 0;
    for generation in oldest..newest {
        earlier += replay_whole(disk, generation, &mut replay)?;
    }
    let (mut log, cut) = match files.logs.contains(&newest) {
        true => replay_last(disk, newest, !files.blobs.is_empty(), &mut replay)?,
        false => (create_log(disk, newest, replay.state.visible.revision)?, None),
    };
    log.earlier = earlier;
    log.oldest = oldest;
    // A crash of the machine must not lose data that is about to be served. The last run may have been killed before
    // it synced.
    let name = names::log(newest);
    log.file.sync().map_err(|error| OpenError::io("sync", &name, error))?;
    disk.sync_dir().map_err(|error| OpenError::io("sync", "the folder", error))?;
    remove_stale(disk, &files, oldest, newest);
    let jumped = replay.jump();
    let blobs = read_blobs(disk, files.blobs)?;
    Ok(Recovered { state: replay.state, blobs, log, report: Recovery { cut, jumped } })
}

fn list(disk: &dyn Disk) -> Result<Files, OpenError> {
    let mut files = Files {
        logs: BTreeSet::new(),
        checkpoints: BTreeSet::new(),
        temporary: Vec::new(),
        blobs: Vec::new(),
    };
    for name in disk.list().map_err(|error| OpenError::io("list", "the folder", error))? {
        match names::parse(&name) {
            Name::Log(generation) => _ = files.logs.insert(generation),
            Name::Checkpoint(generation) => _ = files.checkpoints.insert(generation),
            Name::Temporary => files.temporary.push(name),
            Name::Blob(blob) => files.blobs.push(blob),
            Name::Other => {}
        }
    }
    Ok(files)
}

/// The last log to replay: there must be one of every generation from `oldest` to it.
fn newest_log(disk: &dyn Disk, files: &Files, oldest: u64) -> Result<u64, OpenError> {
    let newest = files.logs.last().copied().unwrap_or(FIRST_GENERATION).max(oldest);
    // A blob is written after the first log was begun: where there is one, there was a log.
    let fresh = files.logs.is_empty() && files.checkpoints.is_empty() && files.blobs.is_empty();
    match (oldest..=newest).find(|generation| !files.logs.contains(generation)) {
        Some(missing) if !fresh => {
            return Err(OpenError::damaged(&names::log(missing), 0, "the file is missing"));
        }
        _ => {}
    }
    // A log that was never begun has never been written to: the one before it is still the last.
    if newest > oldest && never_begun(disk, newest)? { Ok(newest - 1) } else { Ok(newest) }
}

fn never_begun(disk: &dyn Disk, generation: u64) -> Result<bool, OpenError> {
    let name = names::log(generation);
    let file = disk.open(&name).map_err(|error| OpenError::io("open", &name, error))?;
    let header = read_header(&*file, &name, LOG_MAGIC, generation)?;
    Ok(header.is_none() && file_len(&*file, &name)? <= FILE_HEADER as u64)
}

/// Replays a log that another one follows: it was synced whole before that was begun.
fn replay_whole(disk: &dyn Disk, generation: u64, replay: &mut Replay) -> Result<u64, OpenError> {
    let name = names::log(generation);
    let file = disk.open(&name).map_err(|error| OpenError::io("open", &name, error))?;
    let Some(header) = read_header(&*file, &name, LOG_MAGIC, generation)? else {
        return Err(OpenError::damaged(&name, 0, "the file's header is damaged"));
    };
    let Replayed { end, .. } = replay.frames(&*file, &name, header)?;
    if end != file_len(&*file, &name)? {
        return Err(OpenError::damaged(&name, end, "a frame is damaged"));
    }
    Ok(end)
}

/// Replays the log that was being written, and cuts off a write that a crash interrupted.
fn replay_last(
    disk: &dyn Disk,
    generation: u64,
    has_blobs: bool,
    replay: &mut Replay,
) -> Result<(OpenLog, Option<Cut>), OpenError> {
    let name = names::log(generation);
    let mut file = disk.open(&name).map_err(|error| OpenError::io("open", &name, error))?;
    let len = file_len(&*file, &name)?;
    let Some(header) = read_header(&*file, &name, LOG_MAGIC, generation)? else {
        // The header is synced before three things: the first frame, a checkpoint that replaces earlier logs, and the
        // first blob.
        if len > FILE_HEADER as u64 || generation > FIRST_GENERATION || has_blobs {
            return Err(OpenError::damaged(&name, 0, "the file's header is damaged"));
        }
        let cut = (len > 0).then_some(Cut { file: name, offset: 0, bytes: len });
        return Ok((create_log(disk, generation, replay.state.visible.revision)?, cut));
    };
    let Replayed { end, next_sequence, synced } = replay.frames(&*file, &name, header)?;
    let mut cut = None;
    if end < len {
        let damaged = frame::synced_frame_after(&*file, header.salt, end, next_sequence)
            .map_err(|error| OpenError::io("read", &name, error))?;
        if damaged {
            return Err(OpenError::damaged(&name, end, "a frame is damaged, and later ones are not"));
        }
        file.truncate(end).map_err(|error| OpenError::io("truncate", &name, error))?;
        cut = Some(Cut { file: name.clone(), offset: end, bytes: len - end });
    }
    rewrite(&mut *file, synced..end).map_err(|error| OpenError::io("rewrite", &name, error))?;
    Ok((OpenLog { file, header, len: end, next_sequence, earlier: 0, oldest: 0 }, cut))
}

/// Writes again all bytes that are not known to be on the disk. If the last run ended with a failed sync, the system
/// may hold unwritten bytes in memory, readable, and count them as written.
fn rewrite(file: &mut dyn DiskFile, range: std::ops::Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; REWRITE_BYTES.min((range.end - range.start) as usize)];
    let mut at = range.start;
    while at < range.end {
        let part = &mut buffer[..REWRITE_BYTES.min((range.end - at) as usize)];
        if !frame::read_exact(file, at, part)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.rewrite(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Begins a log: durable, with its name, before anything is written to it.
pub(crate) fn create_log(disk: &dyn Disk, generation: u64, revision: Revision) -> Result<OpenLog, OpenError> {
    let name = names::log(generation);
    let header = FileHeader { magic: LOG_MAGIC, generation, salt: disk.salt(), revision };
    let mut file = disk.create(&name).map_err(|error| OpenError::io("create", &name, error))?;
    file.append(&header.encode()).map_err(|error| OpenError::io("write", &name, error))?;
    file.sync().map_err(|error| OpenError::io("sync", &name, error))?;
    disk.sync_dir().map_err(|error| OpenError::io("sync", "the folder", error))?;
    Ok(OpenLog { file, header, len: FILE_HEADER as u64, next_sequence: 1, earlier: 0, oldest: generation })
}

fn file_len(file: &dyn DiskFile, name: &str) -> Result<u64, OpenError> {
    file.len().map_err(|error| OpenError::io("read", name, error))
}

/// The header, or `None` when it is not whole.
fn read_header(
    file: &dyn DiskFile,
    name: &str,
    magic: [u8; 8],
    generation: u64,
) -> Result<Option<FileHeader>, OpenError> {
    let mut bytes = [0; FILE_HEADER];
    if !frame::read_exact(file, 0, &mut bytes).map_err(|error| OpenError::io("read", name, error))? {
        return Ok(None);
    }
    let Some(header) = FileHeader::decode(&bytes) else { return Ok(None) };
    if header.magic[..7] == magic[..7] && header.magic[7] != magic[7] {
        return Err(OpenError::Version { file: name.to_owned(), found: header.magic[7] });
    }
    if header.magic != magic || header.generation != generation {
        return Err(OpenError::damaged(name, 0, "the file is not what its name says"));
    }
    Ok(Some(header))
}

impl Replay {
    /// Replays every whole frame from the beginning.
    fn frames(&mut self, file: &dyn DiskFile, name: &str, header: FileHeader) -> Result<Replayed, OpenError> {
        if header.revision > self.state.visible.revision && self.reserved.contains(&header.revision) {
            self.jump_to(header.revision);
        }
        if header.revision != self.state.visible.revision {
            return Err(OpenError::damaged(
                name,
                0,
                "revisions between the file before and this one are missing",
            ));
        }
        let (mut offset, mut sequence, mut synced) = (FILE_HEADER as u64, 1, 0);
        loop {
            let read =
                frame::read(file, header.salt, offset).map_err(|error| OpenError::io("read", name, error))?;
            let Some(frame) = read.filter(|frame| frame.sequence == sequence) else {
                return Ok(Replayed { end: offset, next_sequence: sequence, synced });
            };
            if frame.prior_synced {
                synced = offset;
            }
            self.frame(&frame).map_err(|what| OpenError::damaged(name, offset, what))?;
            offset += (FRAME_HEADER + frame.payload.len()) as u64;
            sequence += 1;
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), &'static str> {
        let mut payload = frame.payload.as_slice();
        match frame.kind {
            Kind::Commit => {
                while !payload.is_empty() {
                    self.transaction(&mut payload)?;
                }
                Ok(())
            }
            Kind::Reserve => {
                self.reserved.push(take_number(&mut payload).ok_or("a reservation cannot be read")?);
                Ok(())
            }
            Kind::Close => {
                self.reserved.clear();
                Ok(())
            }
            Kind::Entries | Kind::End => Err("a frame does not belong in a log"),
        }
    }

    fn transaction(&mut self, payload: &mut &[u8]) -> Result<(), &'static str> {
        let (revision, ops) = take_transaction(payload).ok_or("a transaction cannot be read")?;
        // The run that wrote this found a reservation, and began after it.
        if revision > self.state.visible.revision + 1 && self.reserved.contains(&(revision - 1)) {
            self.jump_to(revision - 1);
        }
        let (expected, staged) = self.state.stage(ops, None);
        if revision != expected {
            return Err("revisions are missing");
        }
        let events = materialise(revision, staged);
        self.state.append(revision, &events);
        Ok(())
    }

    /// Revisions up to `revision` may have been seen and lost: nothing may be read or watched from below it.
    fn jump_to(&mut self, revision: Revision) {
        self.state.visible.revision = revision;
        self.state.history.raise_floor(revision);
    }

    fn jump(&mut self) -> Option<Jump> {
        let from = self.state.visible.revision;
        let to = self.reserved.iter().copied().max()?;
        (to > from).then(|| {
            self.jump_to(to);
            Jump { from, to }
        })
    }
}

fn read_checkpoint(disk: &dyn Disk, generation: u64) -> Result<Root, OpenError> {
    let name = names::checkpoint(generation);
    let damaged = |offset, what| OpenError::damaged(&name, offset, what);
    let file = disk.open(&name).map_err(|error| OpenError::io("open", &name, error))?;
    let header = read_header(&*file, &name, CHECKPOINT_MAGIC, generation)?
        .ok_or_else(|| damaged(0, "the file's header is damaged"))?;
    let mut root = Root::empty(header.revision);
    let (mut offset, mut sequence) = (FILE_HEADER as u64, 1);
    loop {
        let read =
            frame::read(&*file, header.salt, offset).map_err(|error| OpenError::io("read", &name, error))?;
        let frame = read
            .filter(|frame| frame.sequence == sequence)
            .ok_or_else(|| damaged(offset, "a frame is damaged"))?;
        let mut payload = frame.payload.as_slice();
        match frame.kind {
            Kind::Entries => {
                while !payload.is_empty() {
                    let entry =
                        take_entry(&mut payload).ok_or_else(|| damaged(offset, "an entry cannot be read"))?;
                    root.set(&entry.key.clone(), Some(Arc::new(entry)));
                }
            }
            Kind::End if take_number(&mut payload) == Some(root.len() as u64) => return Ok(root),
            _ => return Err(damaged(offset, "a frame does not belong in a checkpoint")),
        }
        offset += (FRAME_HEADER + frame.payload.len()) as u64;
        sequence += 1;
    }
}

fn read_blobs(disk: &dyn Disk, names: Vec<String>) -> Result<BTreeMap<String, Bytes>, OpenError> {
    let read = |blob: String| {
        let name = names::blob(&blob);
        let contents = || -> io::Result<Vec<u8>> {
            let file = disk.open(&name)?;
            let mut bytes = vec![0; file.len()? as usize];
            match frame::read_exact(&*file, 0, &mut bytes)? {
                true => Ok(bytes),
                false => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        };
        let bytes = contents().map_err(|error| OpenError::io("read", &name, error))?;
        Ok((blob, bytes.into()))
    };
    names.into_iter().map(read).collect()
}

/// Removes files that a crash left and nothing needs. A failure does no harm: the next open tries again.
fn remove_stale(disk: &dyn Disk, files: &Files, oldest: u64, newest: u64) {
    let logs = files.logs.iter().filter(|generation| !(oldest..=newest).contains(*generation));
    let logs = logs.map(|generation| names::log(*generation));
    let checkpoints = files.checkpoints.range(..oldest).map(|generation| names::checkpoint(*generation));
    for name in logs.chain(checkpoints).chain(files.temporary.iter().cloned()) {
        if let Err(error) = disk.remove(&name) {
            tracing::warn!(file = name, %error, "could not remove a file that is no longer needed");
        }
    }
}
