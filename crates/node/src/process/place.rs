//! Opens files and folders by descriptor, below a folder, and through no link that leads out of it.
//!
//! A program may replace a part of a path by a symbolic link at any moment. A path that is checked and then resolved
//! again leads wherever the link says (CVE-2017-1002101, CVE-2021-25741). The node therefore uses the descriptor that
//! it opened.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};

/// Number of attempts to resolve a path while concurrent renames disturb the resolution.
const TRIES: usize = 16;
const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);
const FILE_MODE: Mode = Mode::from_bits_truncate(0o644);

/// Folder or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// Anything else.
    File,
}

/// Opens a path whose last part is not a link.
///
/// # Errors
/// When the path does not exist, or is a link.
pub fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let found = open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
    no_link(found)
}

/// Opens `path` below `folder`, and follows only links that stay inside.
///
/// # Errors
/// When the path does not exist, or a link leads out.
pub fn open_beneath(folder: &impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let inside = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags).resolve(inside);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..TRIES {
        match openat2(folder, path, how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(Errno::EXDEV | Errno::ELOOP) => break,
            found => return Ok(found?),
        }
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "leads out of its volume"))
}

/// Like [`open_beneath`], but creates missing folders on the way.
///
/// # Errors
/// As [`open_beneath`], or when a folder cannot be created.
pub fn make_beneath(folder: &impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let mut here = folder.as_fd().try_clone_to_owned()?;
    let mut way = PathBuf::new();
    for part in parts(path) {
        way.push(part);
        here = match open_beneath(folder, &way) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(&here, part)?;
                open_beneath(folder, &way)?
            }
            found => found?,
        };
    }
    Ok(here)
}

/// Opens the place at `path` below `folder`, without following any link, and creates missing parts.
///
/// # Errors
/// When a part of the path is a link, or cannot be created.
pub fn make_place(folder: &impl AsFd, path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    let mut here = folder.as_fd().try_clone_to_owned()?;
    let mut parts = parts(path).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { Kind::Folder } else { kind };
        here = match open_part(&here, part, kind) {
            Err(Errno::ENOENT) => {
                match kind {
                    Kind::Folder => make_folder(&here, part)?,
                    Kind::File => make_file(&here, part)?,
                }
                open_part(&here, part, kind)?
            }
            found => found?,
        };
    }
    no_link(here)
}

fn parts(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

fn open_part(folder: &OwnedFd, part: &OsStr, kind: Kind) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let flags = if kind == Kind::Folder { flags | OFlag::O_DIRECTORY } else { flags };
    openat(folder, part, flags, Mode::empty())
}

fn make_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match mkdirat(folder, name, FOLDER_MODE) {
        // Another process created it, or it is a dangling link. Opening it decides.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make_file(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    match openat(folder, name, flags, FILE_MODE) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn no_link(found: OwnedFd) -> io::Result<OwnedFd> {
    match file_type(&found)? {
        SFlag::S_IFLNK => Err(Errno::ELOOP.into()),
        _ => Ok(found),
    }
}

fn file_type(found: &OwnedFd) -> io::Result<SFlag> {
    Ok(SFlag::from_bits_truncate(fstat(found)?.st_mode) & SFlag::S_IFMT)
}

/// Returns whether it is a folder or a file.
///
/// # Errors
/// When the kernel does not say.
pub fn kind(found: &OwnedFd) -> io::Result<Kind> {
    Ok(if file_type(found)? == SFlag::S_IFDIR { Kind::Folder } else { Kind::File })
}

/// Returns a path that leads to the open file, whatever became of its name.
pub fn path_of(found: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_sub_path_stays_in_its_volume() {
        let home = tempfile::tempdir().unwrap();
        let (volume, outside) = (home.path().join("volume"), home.path().join("outside"));
        fs::create_dir_all(volume.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink("inner", volume.join("near")).unwrap();
        symlink("../outside", volume.join("up")).unwrap();
        symlink(&outside, volume.join("away")).unwrap();
        symlink("/proc/self/root", volume.join("magic")).unwrap();
        symlink("../outside/new", volume.join("dangling")).unwrap();
        let folder = open_path(&volume).unwrap();
        for (path, is_inside) in [
            ("", true),
            ("inner", true),
            ("near", true),
            ("near/made/deep", true),
            ("up", false),
            ("up/made", false),
            ("away", false),
            ("away/made", false),
            ("magic", false),
            ("magic/etc", false),
            ("dangling", false),
            ("dangling/x", false),
        ] {
            assert_eq!(make_beneath(&folder, Path::new(path)).is_ok(), is_inside, "{path}");
        }
        assert!(volume.join("inner/made/deep").is_dir());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing was made outside");
    }

    #[test]
    fn a_place_is_made_through_no_link() {
        let home = tempfile::tempdir().unwrap();
        let (root, outside) = (home.path().join("root"), home.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let folder = open_path(&root).unwrap();
        for (path, kind, refused) in [
            ("link", Kind::Folder, Errno::ENOTDIR),
            ("link", Kind::File, Errno::ELOOP),
            ("link/new", Kind::Folder, Errno::ENOTDIR),
            ("link/new", Kind::File, Errno::ENOTDIR),
        ] {
            let error = make_place(&folder, Path::new(path), kind).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(refused as i32), "{path} {kind:?}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(kind(&make_place(&folder, Path::new("/a/b"), Kind::File).unwrap()).unwrap(), Kind::File);
        assert!(root.join("a/b").is_file());
        let error = open_path(&root.join("link")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ELOOP as i32));
    }
}
