//! The seam through which every file is reached, so that tests can put a worse disk under the store than any shop
//! sells.

mod directory;
#[doc(hidden)]
pub mod faulty;

use std::io;

pub use directory::Directory;

/// A flat folder of files. `docs/store-format.md` states what is assumed of it.
pub trait Disk: Send + Sync + 'static {
    /// Makes this process the only one to use the folder until the result is dropped. Fails with
    /// [`io::ErrorKind::WouldBlock`] while another does.
    fn lock(&self) -> io::Result<Box<dyn Send + Sync>>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Makes an empty file, in the place of any that has this name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Gives a file another name, in the place of any that has it. Atomic: a crash leaves the one or the other.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Once this returns, a crash takes back no creation, renaming or removal before it.
    fn sync_dir(&self) -> io::Result<()>;

    /// An unpredictable number, to tell what a file was written with from what happens to look like it.
    fn salt(&self) -> u64;

    /// Whether calls can take long, so that the store must make them on a thread of its own.
    fn blocks(&self) -> bool {
        true
    }
}

/// A file that grows at its end.
pub trait DiskFile: Send {
    /// Its length.
    fn len(&self) -> io::Result<u64>;

    /// Whether nothing is in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes at the end. After an error any part of `bytes` may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes the bytes that the file already has at `offset` once more, so that the next sync is sure to write
    /// them, whatever an earlier one failed to do. They stay readable throughout, and through a crash.
    fn rewrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Once this returns, a crash loses nothing that was written since the last sync, failed or not.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to `len` bytes.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
}

/// Whether the disk only lacks room, so that the write may succeed later.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
