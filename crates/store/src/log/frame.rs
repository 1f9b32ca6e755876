//! Frames: the checksummed units that logs and checkpoints are made of. `docs/store-format.md` draws them.

use std::io;

use crate::disk::DiskFile;

/// The first bytes of a log. The last byte is the version of the format.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"setpLOG\x01";
pub(crate) const CHECKPOINT_MAGIC: [u8; 8] = *b"setpCHK\x01";
pub(crate) const FILE_HEADER: usize = 36;
pub(crate) const FRAME_HEADER: usize = 28;
const FRAME_MAGIC: [u8; 4] = *b"\xf5pt\x0a";
/// Flag of a frame: all that the file has before it had been synced when it was written.
const PRIOR_SYNCED: u8 = 1;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) generation: u64,
    /// Goes into every checksum: bytes of another file, or bytes that a user chose, are never taken for a frame.
    pub(crate) salt: u64,
    /// Revision of the state that a log continues, or that a checkpoint holds.
    pub(crate) revision: u64,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER);
        out.extend_from_slice(&self.magic);
        for number in [self.generation, self.salt, self.revision] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// `None` when these are not the bytes of a header.
    pub(crate) fn decode(bytes: &[u8; FILE_HEADER]) -> Option<Self> {
        if crc32fast::hash(&bytes[..32]) != u32_at(bytes, 32) {
            return None;
        }
        let magic = bytes[..8].try_into().expect("eight bytes");
        Some(FileHeader {
            magic,
            generation: u64_at(bytes, 8),
            salt: u64_at(bytes, 16),
            revision: u64_at(bytes, 24),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Log: transactions that became durable together.
    Commit = 1,
    /// Log: revisions up to this one may have been used, even if their commits are lost.
    Reserve = 2,
    /// Log: an orderly end. Nothing before it is lost.
    Close = 3,
    /// Checkpoint: some entries.
    Entries = 4,
    /// Checkpoint: all entries have been given.
    End = 5,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Kind::Commit, Kind::Reserve, Kind::Close, Kind::Entries, Kind::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

pub(crate) struct Frame {
    pub(crate) sequence: u64,
    pub(crate) kind: Kind,
    pub(crate) prior_synced: bool,
    pub(crate) payload: Vec<u8>,
}

/// Room for a frame whose payload is then appended and which [`seal`] completes.
pub(crate) fn begin() -> Vec<u8> {
    vec![0; FRAME_HEADER]
}

/// Fills in the header of a frame that [`begin`] began.
pub(crate) fn seal(frame: &mut [u8], salt: u64, sequence: u64, kind: Kind, prior_synced: bool) {
    let len = (frame.len() - FRAME_HEADER) as u64;
    frame[..4].copy_from_slice(&FRAME_MAGIC);
    frame[4..12].copy_from_slice(&len.to_le_bytes());
    frame[12..20].copy_from_slice(&sequence.to_le_bytes());
    frame[20] = kind as u8;
    frame[21] = if prior_synced { PRIOR_SYNCED } else { 0 };
    let checksum = checksum(salt, &frame[..24], &frame[FRAME_HEADER..]);
    frame[24..28].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(salt: u64, header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(header);
    hasher.update(payload);
    hasher.finalize()
}

/// Reads the frame at `offset`; `None` when there is no whole and undamaged one.
pub(crate) fn read(file: &dyn DiskFile, salt: u64, offset: u64) -> io::Result<Option<Frame>> {
    let mut header = [0; FRAME_HEADER];
    if !read_exact(file, offset, &mut header)? || header[..4] != FRAME_MAGIC {
        return Ok(None);
    }
    let len = u64_at(&header, 4);
    let left = file.len()?.saturating_sub(offset + FRAME_HEADER as u64);
    // Checked before memory is taken for it: a damaged length may be anything.
    if len > left {
        return Ok(None);
    }
    let mut payload = vec![0; len as usize];
    if !read_exact(file, offset + FRAME_HEADER as u64, &mut payload)?
        || checksum(salt, &header[..24], &payload) != u32_at(&header, 24)
    {
        return Ok(None);
    }
    let Some(kind) = Kind::from_byte(header[20]) else { return Ok(None) };
    Ok(Some(Frame {
        sequence: u64_at(&header, 12),
        kind,
        prior_synced: header[21] & PRIOR_SYNCED != 0,
        payload,
    }))
}

/// Whether any frame after `offset` says that the bytes at `offset` had been synced. If so, wrong bytes there are
/// damage, not the end of a write that a crash cut off.
pub(crate) fn synced_frame_after(
    file: &dyn DiskFile,
    salt: u64,
    offset: u64,
    sequence: u64,
) -> io::Result<bool> {
    let mut rest = vec![0; file.len()?.saturating_sub(offset) as usize];
    if !read_exact(file, offset, &mut rest)? {
        return Ok(false);
    }
    for at in 1..rest.len().saturating_sub(FRAME_HEADER - 1) {
        if rest[at..at + 4] == FRAME_MAGIC
            && let Some(frame) = read(file, salt, offset + at as u64)?
            && frame.prior_synced
            && frame.sequence > sequence
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the whole of `buffer` could be read.
pub(crate) fn read_exact(file: &dyn DiskFile, offset: u64, buffer: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(offset + done as u64, &mut buffer[done..]) {
            Ok(0) => return Ok(false),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
