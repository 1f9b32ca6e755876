//! One container run's log on disk: appended line by line, rotated when it grows past its bound.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::plain_file;

/// A file that grows past this is rotated, and the previous rotated file is dropped. A flood costs at most twice this
/// size.
const FILE_BYTES: u64 = 10 * 1024 * 1024;
/// A line longer than this is stored in parts.
const LINE_BYTES: usize = 16 * 1024;

/// A log that is being written. Clones write to the same one.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    path: PathBuf,
    state: Mutex<State>,
    /// Counts appends and rotations, and marks the end.
    grown: watch::Sender<Growth>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Growth {
    appends: u64,
    rotations: u64,
    ended: bool,
}

struct State {
    file: File,
    bytes: u64,
    /// The unfinished line of each stream.
    partial: [Vec<u8>; 2],
}

/// The stream of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The standard output, or a terminal.
    Stdout,
    /// The standard error.
    Stderr,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Origin::Stdout => "stdout",
            Origin::Stderr => "stderr",
        }
    }
}

impl Log {
    /// Opens the log at `path`, and continues after an earlier writer.
    pub fn open(path: &Path) -> io::Result<Log> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let (file, facts) = plain_file::append(path)?;
        let bytes = facts.len();
        let state = Mutex::new(State { file, bytes, partial: Default::default() });
        Ok(Log(Arc::new(Inner { path: path.to_path_buf(), state, grown: watch::Sender::default() })))
    }

    /// Appends output as it comes from the container. A failing disk loses lines, never the container.
    pub fn write(&self, now: Timestamp, origin: Origin, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock().expect("no holder of this lock panics");
        let partial = &mut state.partial[origin as usize];
        partial.extend_from_slice(bytes);
        let taken = std::mem::take(partial);
        let mut rest = taken.as_slice();
        let mut lines = Vec::with_capacity(bytes.len() + 64);
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            store(&mut lines, now, origin, line, true);
            rest = &after[1..];
        }
        while rest.len() > LINE_BYTES {
            let (part, after) = rest.split_at(LINE_BYTES);
            store(&mut lines, now, origin, part, false);
            rest = after;
        }
        state.partial[origin as usize] = rest.to_vec();
        self.append(&mut state, &lines)
    }

    /// Marks the end of the output.
    pub fn end(&self, now: Timestamp) -> io::Result<()> {
        let mut state = self.0.state.lock().expect("no holder of this lock panics");
        let mut lines = Vec::new();
        for origin in [Origin::Stdout, Origin::Stderr] {
            let partial = std::mem::take(&mut state.partial[origin as usize]);
            if !partial.is_empty() {
                store(&mut lines, now, origin, &partial, false);
            }
        }
        let result = self.append(&mut state, &lines);
        self.0.grown.send_modify(|growth| growth.ended = true);
        result
    }

    fn append(&self, state: &mut State, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut rotated = false;
        if state.bytes + lines.len() as u64 > FILE_BYTES && state.bytes > 0 {
            fs::rename(&self.0.path, older(&self.0.path))?;
            state.file = plain_file::append(&self.0.path)?.0;
            state.bytes = 0;
            rotated = true;
        }
        state.file.write_all(lines)?;
        state.bytes += lines.len() as u64;
        self.0.grown.send_modify(|growth| {
            growth.appends += 1;
            growth.rotations += u64::from(rotated);
        });
        Ok(())
    }

    /// Returns all stored bytes, oldest first.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let _writers_wait = self.0.state.lock().expect("no holder of this lock panics");
        read_kept(&self.0.path)
    }

    /// Returns about the last `most` bytes, from the start of a stored line.
    pub fn read_end(&self, most: u64) -> io::Result<Vec<u8>> {
        let state = self.0.state.lock().expect("no holder of this lock panics");
        if state.bytes >= most {
            return read_lines_from(&self.0.path, state.bytes - most);
        }
        // The file may be a new one: the end of the previous one belongs to the result.
        let older = older(&self.0.path);
        let mut end = match fs::symlink_metadata(&older) {
            Ok(facts) => read_lines_from(&older, facts.len().saturating_sub(most - state.bytes))?,
            Err(_) => Vec::new(),
        };
        end.extend(read_from(&self.0.path, 0)?);
        Ok(end)
    }

    /// Returns the stored bytes, and a reader of all later ones.
    pub fn follow(&self) -> io::Result<(Vec<u8>, LogReader)> {
        let state = self.0.state.lock().expect("no holder of this lock panics");
        let kept = read_kept(&self.0.path)?;
        let mut grown = self.0.grown.subscribe();
        let seen = *grown.borrow_and_update();
        let reader = LogReader { path: self.0.path.clone(), offset: state.bytes, seen, grown };
        Ok((kept, reader))
    }
}

/// Reads a log file and its predecessor. Returns nothing for a missing file.
fn read_kept(path: &Path) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    for path in [older(path), path.to_path_buf()] {
        match plain_file::open(&path) {
            Ok((mut file, _)) => file.read_to_end(&mut kept)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(kept)
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1.log")
}

fn store(lines: &mut Vec<u8>, now: Timestamp, origin: Origin, text: &[u8], whole: bool) {
    let (stream, part) = (origin.name(), if whole { 'F' } else { 'P' });
    lines.extend_from_slice(format!("{now:.9} {stream} {part} ").as_bytes());
    lines.extend_from_slice(text);
    lines.push(b'\n');
}

/// Follows one log.
pub struct LogReader {
    path: PathBuf,
    offset: u64,
    seen: Growth,
    grown: watch::Receiver<Growth>,
}

impl LogReader {
    /// Returns the next stored lines, or `None` when the log has ended. A reader that is slower than two rotations
    /// misses the dropped lines, as in a kubelet.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let now = *self.grown.borrow_and_update();
            if now.rotations != self.seen.rotations {
                let mut lines = read_from(&older(&self.path), self.offset)?;
                lines.extend(read_from(&self.path, 0)?);
                self.offset = fs::metadata(&self.path)?.len();
                self.seen = now;
                return Ok(Some(lines));
            }
            if now.appends != self.seen.appends {
                let lines = read_from(&self.path, self.offset)?;
                self.offset += lines.len() as u64;
                self.seen = now;
                if !lines.is_empty() {
                    return Ok(Some(lines));
                }
            }
            // Dropping the log without an end is an end too.
            if now.ended || self.grown.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// Reads a file from the first line that begins at or after `offset`.
fn read_lines_from(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let Some(before) = offset.checked_sub(1) else { return read_from(path, 0) };
    let mut lines = read_from(path, before)?;
    let cut = memchr::memchr(b'\n', &lines).map_or(lines.len(), |at| at + 1);
    lines.drain(..cut);
    Ok(lines)
}

fn read_from(path: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = plain_file::open(path)?.0;
    file.seek(SeekFrom::Start(offset))?;
    let mut lines = Vec::new();
    file.read_to_end(&mut lines)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogOptions;

    fn now() -> Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    fn text(stored: &[u8]) -> String {
        String::from_utf8(LogOptions::default().select(stored, now())).unwrap()
    }

    #[tokio::test]
    async fn a_follower_sees_what_is_kept_and_what_comes_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::open(&folder.path().join("0.log")).unwrap();
        log.write(now(), Origin::Stdout, b"one\ntw").unwrap();
        let (kept, mut reader) = log.follow().unwrap();
        assert_eq!(text(&kept), "one\n");
        log.write(now(), Origin::Stdout, b"o\n").unwrap();
        assert_eq!(text(&reader.next().await.unwrap().unwrap()), "two\n");
        log.write(now(), Origin::Stdout, b"last").unwrap();
        log.end(now()).unwrap();
        assert_eq!(text(&reader.next().await.unwrap().unwrap()), "last");
        assert_eq!(reader.next().await.unwrap(), None);
    }

    #[test]
    fn a_flood_stays_within_its_bound_and_keeps_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let log = Log::open(&path).unwrap();
        let line = [b"x".repeat(1000), b"\n".to_vec()].concat();
        for _ in 0..40_000 {
            log.write(now(), Origin::Stdout, &line).unwrap();
        }
        log.write(now(), Origin::Stdout, b"the end\n").unwrap();
        let kept: u64 =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(kept <= 2 * FILE_BYTES, "{kept}");
        let end = log.read_end(4000).unwrap();
        assert!(end.len() <= 4000 && text(&end).ends_with("x\nthe end\n"), "{}", end.len());
        assert!(log.read().unwrap().ends_with(&end));
        assert!(text(&log.read().unwrap()).ends_with("the end\n"));
    }
}
