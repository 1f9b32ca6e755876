//! The interface to all files. Tests can replace the disk by a worse one than any shop sells.

mod directory;
#[doc(hidden)]
pub mod faulty;

use std::io;

pub use directory::Directory;

/// The file that holds the lock, where it is a file.
pub(crate) const LOCK_FILE: &str = "lock";

/// A flat folder of files. `docs/store-format.md` states the assumptions about it.
pub trait Disk: Send + Sync + 'static {
    /// Makes this process the only user of the folder until the result is dropped. Fails with
    /// [`io::ErrorKind::WouldBlock`] while another process has the lock.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;

    /// Lists the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Creates an empty file and replaces a file of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file and replaces a file of the new name. Atomic: a crash leaves the old name or the new one.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Once this returns, a crash takes back no creation, renaming or removal before it.
    fn sync_dir(&self) -> io::Result<()>;

    /// Returns an unpredictable number. The salt distinguishes the frames of a file from bytes that look like frames.
    fn salt(&self) -> u64;

    /// Whether calls can block for long, so that the store must make them on a separate thread.
    fn blocks(&self) -> bool {
        true
    }
}

/// A file that grows at its end.
pub trait DiskFile: Send {
    /// Returns the length.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buffer.len()` bytes at `offset`. Returns 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes at the end. After an error the file may contain any part of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes the bytes that the file already has at `offset` once more. The next sync then certainly writes them,
    /// even if an earlier sync failed. The bytes stay readable throughout, and through a crash.
    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Once this returns, a crash loses no write since the last sync, whether that sync succeeded or failed.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// Whether the disk is only full, so that the write may succeed later.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
