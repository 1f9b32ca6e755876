//! Reads files that a program may have replaced by something else.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a regular file. A named pipe would block the caller, and a link would lead to another file.
///
/// # Errors
/// When the file does not exist, or is not a regular file.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    let facts = file.metadata()?;
    match facts.is_file() {
        true => Ok((file, facts)),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is no regular file")),
    }
}

/// Opens a regular file for appending, and creates it if it does not exist.
///
/// # Errors
/// When the path is not a regular file, or the disk refuses.
pub fn append(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options().create(true).append(true).custom_flags(flags.bits()).open(path)?;
    let facts = file.metadata()?;
    match facts.is_file() {
        true => Ok((file, facts)),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is no regular file")),
    }
}

/// Replaces whatever is at the path by a new file that only its owner may read, and writes `text` to it.
///
/// # Errors
/// When the disk refuses.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Reads at most `most` bytes from the beginning of a regular file.
///
/// # Errors
/// As [`open`], or when the disk refuses.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.0.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn only_the_beginning_of_a_regular_file_is_read() {
        let home = tempfile::tempdir().unwrap();
        let [file, pipe, link] = ["file", "pipe", "link"].map(|name| home.path().join(name));
        std::fs::write(&file, "words").unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"wor");
        assert_eq!(read(&file, 10).unwrap(), b"words");
        let no_file = "is no regular file".to_owned();
        let system = |error: Errno| io::Error::from(error).to_string();
        for (wrong, to_read, to_append) in [
            (&*pipe, no_file.clone(), system(Errno::ENXIO)),
            (&*link, system(Errno::ELOOP), system(Errno::ELOOP)),
            (home.path(), no_file, system(Errno::EISDIR)),
        ] {
            assert_eq!(read(wrong, 3).unwrap_err().to_string(), to_read, "{}", wrong.display());
            assert_eq!(append(wrong).unwrap_err().to_string(), to_append, "{}", wrong.display());
        }
        replace(&link, "other").unwrap();
        replace(&pipe, "").unwrap();
        assert_eq!(
            (read(&file, 10).unwrap(), read(&link, 10).unwrap()),
            (b"words".to_vec(), b"other".to_vec())
        );
    }
}
