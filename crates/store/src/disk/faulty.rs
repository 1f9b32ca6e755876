//! A disk for tests: it keeps every promise of [`Disk`] and no other. On a power failure it loses, tears and reorders
//! unsynced writes. It can fail at any call, run full, and fail to sync. The same seed gives the same behaviour.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// The unit in which a torn write survives or does not.
const SECTOR: usize = 128;

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<Contents>>);

/// The faults to inject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The power fails at the n-th call from now.
    pub power_fails_after: Option<u64>,
    /// The n-th sync from now fails and loses an arbitrary part of the data that it should have made durable.
    pub sync_fails_after: Option<u64>,
    /// The maximum total size of the files.
    pub capacity: Option<usize>,
}

struct Contents {
    random: u64,
    /// Keyed by number: a name only refers to a file.
    files: BTreeMap<u64, FileContents>,
    next_file: u64,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Renames since the folder was last synced.
    renamings: Vec<Renaming>,
    locked: bool,
    power: bool,
    faults: Faults,
}

#[derive(Default, Clone)]
struct FileContents {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the file was last synced.
    changes: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone)]
enum Renaming {
    Link(String, u64),
    Rename { from: String, to: String, file: u64 },
    Remove(String, u64),
}

impl FaultyDisk {
    /// An empty disk on which nothing goes wrong yet.
    pub fn new(seed: u64) -> Self {
        FaultyDisk(Arc::new(Mutex::new(Contents {
            random: seed,
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            renamings: Vec::new(),
            locked: false,
            power: true,
            faults: Faults::default(),
        })))
    }

    /// Sets the faults to inject from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.contents().faults = faults;
    }

    /// Whether the power is on.
    pub fn has_power(&self) -> bool {
        self.contents().power
    }

    /// Changes one byte of a file, as decay would.
    pub fn damage(&self, name: &str, offset: usize) {
        let mut contents = self.contents();
        let file = contents.names[name];
        let file = contents.files.get_mut(&file).expect("a name has a file");
        file.now[offset] ^= 0x40;
        file.durable[offset] ^= 0x40;
    }

    /// The bytes of a file as the next reader will find them.
    pub fn contents_of(&self, name: &str) -> Vec<u8> {
        let contents = self.contents();
        contents.files[&contents.names[name]].now.clone()
    }

    /// The disk after its process was killed: all writes are present, synced or not.
    pub fn after_kill(&self) -> FaultyDisk {
        let contents = self.contents();
        FaultyDisk(Arc::new(Mutex::new(Contents {
            files: contents.files.clone(),
            names: contents.names.clone(),
            durable_names: contents.durable_names.clone(),
            renamings: contents.renamings.clone(),
            locked: false,
            power: true,
            faults: Faults::default(),
            ..*contents
        })))
    }

    /// The disk after the power failed and came back: an arbitrary part of the unsynced writes is present.
    pub fn after_power_failure(&self) -> FaultyDisk {
        let mut contents = self.contents();
        let mut random = contents.random;
        let names = surviving_names(&contents, &mut random);
        let survive = |(number, file): (&u64, &FileContents)| {
            let now = file.surviving(&mut random);
            (*number, FileContents { durable: now.clone(), now, changes: Vec::new() })
        };
        let files = contents.files.iter().map(survive).collect();
        contents.power = false;
        FaultyDisk(Arc::new(Mutex::new(Contents {
            random,
            files,
            durable_names: names.clone(),
            names,
            renamings: Vec::new(),
            locked: false,
            power: true,
            faults: Faults::default(),
            ..*contents
        })))
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each rename since the last sync survives or not, independently of the others.
fn surviving_names(contents: &Contents, random: &mut u64) -> BTreeMap<String, u64> {
    let mut names = contents.durable_names.clone();
    for renaming in &contents.renamings {
        if chance(random, 2) {
            continue;
        }
        match renaming {
            Renaming::Link(name, file) => _ = names.insert(name.clone(), *file),
            Renaming::Rename { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Renaming::Remove(name, file) => {
                if names.get(name) == Some(file) {
                    names.remove(name);
                }
            }
        }
    }
    names
}

impl FileContents {
    /// Each sector written since the last sync survives or not, independently of the others.
    fn surviving(&self, random: &mut u64) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // Often all or nothing survives. Some crashes must be of that kind too.
        let odds = [1, 2, 4, u64::MAX][next(random) as usize % 4];
        for change in &self.changes {
            match change {
                Change::Truncate(len) => {
                    if chance(random, 2) {
                        bytes.truncate(*len);
                    }
                }
                Change::Write { at, bytes: written } => {
                    let mut sector = 0;
                    while sector < written.len() {
                        let end = (sector + SECTOR - (at + sector) % SECTOR).min(written.len());
                        if !chance(random, odds) {
                            write_at(&mut bytes, at + sector, &written[sector..end]);
                        }
                        sector = end;
                    }
                }
            }
        }
        bytes
    }
}

fn write_at(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
    if bytes.len() < at + written.len() {
        bytes.resize(at + written.len(), 0);
    }
    bytes[at..at + written.len()].copy_from_slice(written);
}

/// Returns true once in `odds` times on average.
fn chance(random: &mut u64, odds: u64) -> bool {
    odds != u64::MAX && next(random).is_multiple_of(odds)
}

/// splitmix64.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Contents {
    /// Counts a call. At the chosen call the power fails, just before or just after the call takes effect.
    fn call(&mut self) -> io::Result<bool> {
        if !self.power {
            return Err(no_power());
        }
        let Some(left) = &mut self.faults.power_fails_after else { return Ok(true) };
        if *left > 0 {
            *left -= 1;
            return Ok(true);
        }
        self.power = false;
        if chance(&mut self.random, 2) { Ok(false) } else { Err(no_power()) }
    }

    fn sync_fails(&mut self) -> bool {
        let Some(left) = &mut self.faults.sync_fails_after else { return false };
        let now = *left == 0;
        *left = left.saturating_sub(1);
        if now {
            self.faults.sync_fails_after = None;
        }
        now
    }

    fn room(&self) -> usize {
        let used: usize = self.names.values().map(|file| self.files[file].now.len()).sum();
        self.faults.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(used))
    }

    fn file(&mut self, number: u64) -> &mut FileContents {
        self.files.get_mut(&number).expect("a handle has a file")
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn no_power() -> io::Error {
    io::Error::other("the power has failed")
}

/// The result of a call that took effect.
fn done<T>(alive: bool, value: T) -> io::Result<T> {
    if alive { Ok(value) } else { Err(no_power()) }
}

impl Disk for FaultyDisk {
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let mut contents = self.contents();
        if std::mem::replace(&mut contents.locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(Unlock(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        done(alive, contents.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        let number = contents.find(name)?;
        done(alive, Box::new(FaultyFile { disk: self.clone(), number }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        let number = contents.next_file;
        contents.next_file += 1;
        contents.files.insert(number, FileContents::default());
        if let Some(old) = contents.names.insert(name.to_owned(), number) {
            contents.renamings.push(Renaming::Remove(name.to_owned(), old));
        }
        contents.renamings.push(Renaming::Link(name.to_owned(), number));
        done(alive, Box::new(FaultyFile { disk: self.clone(), number }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        let file = contents.find(from)?;
        contents.names.remove(from);
        contents.names.insert(to.to_owned(), file);
        contents.renamings.push(Renaming::Rename { from: from.to_owned(), to: to.to_owned(), file });
        done(alive, ())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        let file = contents.find(name)?;
        contents.names.remove(name);
        contents.renamings.push(Renaming::Remove(name.to_owned(), file));
        done(alive, ())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut contents = self.contents();
        let alive = contents.call()?;
        if contents.sync_fails() {
            return Err(io::Error::other("the sync failed"));
        }
        contents.durable_names = contents.names.clone();
        contents.renamings.clear();
        done(alive, ())
    }

    fn salt(&self) -> u64 {
        next(&mut self.contents().random)
    }

    fn blocks(&self) -> bool {
        false
    }
}

struct Unlock(FaultyDisk);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.contents().locked = false;
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    number: u64,
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let len = contents.file(self.number).now.len() as u64;
        done(alive, len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let bytes = &contents.file(self.number).now;
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        done(alive, count)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let room = contents.room();
        let fits = &bytes[..bytes.len().min(room)];
        let file = contents.file(self.number);
        let at = file.now.len();
        file.now.extend_from_slice(fits);
        file.changes.push(Change::Write { at, bytes: fits.to_vec() });
        if fits.len() < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        done(alive, ())
    }

    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let file = contents.file(self.number);
        let at = offset as usize;
        assert_eq!(file.now.get(at..at + bytes.len()), Some(bytes), "a rewrite changes nothing");
        file.changes.push(Change::Write { at, bytes: bytes.to_vec() });
        done(alive, ())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let fails = contents.sync_fails();
        let mut random = contents.random;
        let file = contents.file(self.number);
        if fails {
            // As on Linux, bytes that could not be written are dropped and count as clean: later syncs skip them.
            file.durable = file.surviving(&mut random);
            file.changes.clear();
            contents.random = random;
            return Err(io::Error::other("the sync failed"));
        }
        // Only later changes become durable. Bytes that an earlier failed sync dropped stay lost, although readers
        // still find them.
        for change in std::mem::take(&mut file.changes) {
            match change {
                Change::Truncate(len) => file.durable.truncate(len),
                Change::Write { at, bytes } => write_at(&mut file.durable, at, &bytes),
            }
        }
        done(alive, ())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut contents = self.disk.contents();
        let alive = contents.call()?;
        let file = contents.file(self.number);
        file.now.truncate(len as usize);
        file.changes.push(Change::Truncate(len as usize));
        done(alive, ())
    }
}
