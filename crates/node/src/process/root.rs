//! A container's view of the file system: the host's, with the pod's volumes at their mount paths.
//!
//! In a mount namespace of its own where the host allows one; elsewhere as links under a folder that an
//! environment variable names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use serde::{Deserialize, Serialize};

/// One volume mount.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The folder or file on the host.
    pub source: PathBuf,
    /// Where the container sees it.
    pub target: PathBuf,
    /// Whether the container may not write there.
    pub read_only: bool,
}

const NONE: Option<&str> = None;

/// Makes a mount namespace whose root holds everything of the host's and the mounts, and enters it. False where the
/// host does not allow it; nothing was changed then.
pub fn isolate(root: &Path, mounts: &[Mount]) -> io::Result<bool> {
    if !new_namespace()? {
        return Ok(false);
    }
    // Nothing that is mounted from here on may be seen outside.
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    match mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::empty(), Some("mode=755")) {
        // Some hosts give an unprivileged user the namespace and no right inside it.
        Err(Errno::EPERM | Errno::EACCES) => return Ok(false),
        result => result?,
    }
    let mounts = resolved(mounts)?;
    let folders = opened_folders(&mounts);
    mirror(Path::new("/"), root, &folders)?;
    for volume in &mounts {
        let target = under(root, &volume.target);
        make_target(&volume.source, &target)?;
        bind(&volume.source, &target)?;
        if volume.read_only {
            let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            mount(NONE, &target, NONE, flags | kept_flags(&target)?, NONE)?;
        }
    }
    std::os::unix::fs::chroot(root)?;
    std::env::set_current_dir("/")?;
    Ok(true)
}

/// A mount namespace of our own: as root, or as the same user in a user namespace of our own.
fn new_namespace() -> io::Result<bool> {
    match unshare(CloneFlags::CLONE_NEWNS) {
        Ok(()) => return Ok(true),
        Err(Errno::EPERM) => {}
        Err(Errno::EINVAL | Errno::ENOSYS) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    match unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS) {
        Ok(()) => {}
        Err(Errno::EPERM | Errno::EINVAL | Errno::ENOSYS | Errno::ENOSPC | Errno::EUSERS) => {
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    Ok(true)
}

/// What a mount already is: in a user namespace these may be kept and not taken away.
fn kept_flags(target: &Path) -> io::Result<MsFlags> {
    let now = statvfs(target)?.flags();
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(is, _)| now.contains(*is)).map(|(_, keep)| keep).collect())
}

/// Enters the mount namespace and root of a running container. False where that process has none of its own.
pub fn join(pid: i32) -> io::Result<bool> {
    let theirs = format!("/proc/{pid}/ns/mnt");
    if fs::read_link(&theirs)? == fs::read_link("/proc/self/ns/mnt")? {
        return Ok(false);
    }
    let root = format!("/proc/{pid}/root");
    let folder = fs::File::open(&root)?;
    let mounts = fs::File::open(&theirs)?;
    let users = format!("/proc/{pid}/ns/user");
    if fs::read_link(&users)? != fs::read_link("/proc/self/ns/user")? {
        setns(fs::File::open(&users)?, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(mounts, CloneFlags::CLONE_NEWNS)?;
    nix::unistd::fchdir(&folder)?;
    std::os::unix::fs::chroot(".")?;
    Ok(true)
}

/// The mounts with their targets as they are without symbolic links (`/var/run` is one to `/run`), outer ones first:
/// until the root is changed, a link that is followed leads to the host's own folders.
fn resolved(mounts: &[Mount]) -> io::Result<Vec<Mount>> {
    let mut mounts = mounts.to_vec();
    for volume in &mut mounts {
        let target = under(Path::new("/"), &volume.target);
        let known = target.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let rest = target.strip_prefix(known).unwrap_or(Path::new(""));
        volume.target = known.canonicalize()?.join(rest);
    }
    mounts.sort_by_key(|volume| volume.target.components().count());
    Ok(mounts)
}

/// The folders that cannot be bound whole from the host because a mount path goes through them.
fn opened_folders(mounts: &[Mount]) -> BTreeSet<PathBuf> {
    mounts.iter().flat_map(|volume| volume.target.ancestors().skip(1)).map(Path::to_path_buf).collect()
}

/// Gives `into` the entries of the host's folder `from`: bound, but for folders that a mount path goes through,
/// which become folders of our own with the same treatment inside.
fn mirror(from: &Path, into: &Path, opened: &BTreeSet<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let place = into.join(name);
        let kind = fs::symlink_metadata(&path)?.file_type();
        if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &place)?;
        } else if kind.is_dir() && opened.contains(&path) {
            fs::create_dir(&place)?;
            mirror(&path, &place, opened)?;
        } else if kind.is_dir() {
            fs::create_dir(&place)?;
            // A folder that cannot be bound (it vanished, or is of a kind that refuses) stays empty.
            let _ = bind(&path, &place);
        } else {
            // Devices and sockets too: a bound file is whatever its source is.
            fs::File::create(&place)?;
            let _ = bind(&path, &place);
        }
    }
    Ok(())
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    mount(Some(source), target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE).map_err(io::Error::from)
}

/// A place for a bind mount has to exist, and be of the same kind.
fn make_target(source: &Path, target: &Path) -> io::Result<()> {
    if source.is_dir() {
        return fs::create_dir_all(target);
    }
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().create(true).append(true).open(target).map(drop)
}

/// Without a namespace: links to the volumes under `root`.
pub fn link(root: &Path, mounts: &[Mount]) -> io::Result<()> {
    for volume in mounts {
        let place = under(root, &volume.target);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        match symlink(&volume.source, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// `path` as it stands under `root`; parts that would climb out of it are dropped.
pub fn under(root: &Path, path: &Path) -> PathBuf {
    let mut place = root.to_path_buf();
    place.extend(path.components().filter(|part| matches!(part, Component::Normal(_))));
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_climb_out_of_its_root() {
        assert_eq!(under(Path::new("/pod"), Path::new("/book/../../etc")), Path::new("/pod/book/etc"));
    }

    #[test]
    fn a_target_behind_a_link_is_where_the_link_leads() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join("run")).unwrap();
        symlink(home.join("run"), home.join("var")).unwrap();
        let mount = |target: PathBuf| Mount { source: "/v".into(), target, read_only: false };
        let mounts = resolved(&[mount(home.join("var/a/b")), mount(home.join("var/a"))]).unwrap();
        assert_eq!(mounts, [mount(home.join("run/a")), mount(home.join("run/a/b"))]);
    }

    #[test]
    fn folders_on_the_way_to_a_mount_are_opened() {
        let volume = Mount { source: "/v".into(), target: "/book/src".into(), read_only: false };
        let opened = opened_folders(&[volume]);
        assert_eq!(opened.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(), ["/", "/book"]);
    }
}
