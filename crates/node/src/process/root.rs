//! A container's view of the file system: the host's, with the pod's volumes at their mount paths.
//!
//! It is a separate mount namespace if the host allows one. Otherwise it is links under a folder that an environment
//! variable names.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::symlinkat;
use serde::{Deserialize, Serialize};

use super::mount_guard::{MountGuard, resolved};
use super::place::{Kind, kind, make_beneath, make_place, open_beneath, open_path, path_of};

/// One volume mount.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The volume's folder or file on the host.
    pub volume: PathBuf,
    /// The subpath that is mounted. Empty for the whole volume.
    pub sub_path: PathBuf,
    /// Whether a missing subpath is created as a folder.
    pub make_missing: bool,
    /// The path in the container.
    pub target: PathBuf,
    /// Whether the container may not write to it.
    pub read_only: bool,
}

impl Mount {
    /// Opens the mount's source, which lies in the volume whatever links the volume holds.
    fn open(&self) -> io::Result<OwnedFd> {
        let volume = open_path(&self.volume)?;
        if self.sub_path.as_os_str().is_empty() {
            return Ok(volume);
        }
        let found = match self.make_missing {
            true => make_beneath(&volume, &self.sub_path),
            false => open_beneath(&volume, &self.sub_path),
        };
        found.map_err(|error| {
            let text =
                format!("cannot mount subPath {:?} at {}: {error}", self.sub_path, self.target.display());
            io::Error::new(error.kind(), text)
        })
    }
}

/// The mounts of a container and its working folder.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct View {
    /// The mounts, by path.
    pub mounts: Vec<Mount>,
    /// Places where nothing may be mounted.
    pub guard: MountGuard,
    /// The working folder, as the container sees it.
    pub directory: Option<PathBuf>,
}

impl View {
    /// Returns the mounts with targets free of links, outer ones first. Until the root is changed, following a link
    /// leads to the host's own folders.
    fn placed(&self) -> io::Result<Vec<Mount>> {
        let mut mounts = self.mounts.clone();
        for volume in &mut mounts {
            self.guard.check(&volume.target).map_err(io::Error::other)?;
            volume.target = resolved(&volume.target)?;
            // A link may have been replaced since the check, so the final target is checked here.
            self.guard.check(&volume.target).map_err(io::Error::other)?;
        }
        mounts.sort_by_key(|volume| volume.target.components().count());
        Ok(mounts)
    }

    /// Returns the working folder if it must be created: the host lacks it, and no volume is mounted above it.
    fn made_directory(&self, mounts: &[Mount]) -> Option<PathBuf> {
        let directory = resolved(self.directory.as_ref()?).ok()?;
        let is_in_volume = mounts.iter().any(|volume| directory.starts_with(&volume.target));
        (!is_in_volume && !directory.exists()).then_some(directory)
    }
}

const NONE: Option<&str> = None;

/// Creates and enters a mount namespace whose root has the host's tree and the mounts. Returns false, without any
/// change, if the host does not allow it.
pub fn isolate(root: &Path, view: &View) -> io::Result<bool> {
    if !new_namespace()? {
        return Ok(false);
    }
    // Mounts from here on must not be visible outside.
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    match mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::empty(), Some("mode=755")) {
        // Some hosts give an unprivileged user the namespace without rights inside it.
        Err(Errno::EPERM | Errno::EACCES) => return Ok(false),
        result => result?,
    }
    let mounts = view.placed()?;
    let directory = view.made_directory(&mounts);
    let targets = mounts.iter().map(|volume| volume.target.as_path()).chain(directory.as_deref());
    mirror(Path::new("/"), root, &opened_folders(targets))?;
    let top = open_path(root)?;
    for volume in &mounts {
        bind_volume(&top, volume)?;
    }
    if let Ok(directory) = resolved(view.directory.as_deref().unwrap_or(Path::new("/"))) {
        // A folder behind a volume's link is not created. Entering it shows whether it exists.
        let _ = make_place(&top, &directory, Kind::Folder);
    }
    std::os::unix::fs::chroot(root)?;
    std::env::set_current_dir("/")?;
    Ok(true)
}

/// Mounts a volume by descriptors. A path in the volume would be resolved again, through links that its writer may
/// have created since.
fn bind_volume(top: &impl AsFd, volume: &Mount) -> io::Result<()> {
    let describe = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot mount at {}: {error}", volume.target.display()))
    };
    let source = volume.open()?;
    let kind = kind(&source)?;
    let target = make_place(top, &volume.target, kind).map_err(describe)?;
    bind(&path_of(&source), &path_of(&target)).map_err(describe)?;
    if volume.read_only {
        // Open it again: the earlier descriptor leads to the folder under the mount.
        let target = make_place(top, &volume.target, kind).map_err(describe)?;
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(NONE, &path_of(&target), NONE, flags | kept_flags(&path_of(&target))?, NONE)?;
    }
    Ok(())
}

/// Creates a mount namespace: as root, or as the same user in a new user namespace.
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

/// Returns the flags that a mount has already. In a user namespace these may be kept, but not removed.
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

/// Enters the mount namespace and root of a running container. Returns false if that process has none of its own.
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

/// Returns the folders that cannot be bound whole from the host, because a mount path goes through them.
fn opened_folders<'a>(targets: impl Iterator<Item = &'a Path>) -> BTreeSet<PathBuf> {
    targets.flat_map(|target| target.ancestors().skip(1)).map(Path::to_path_buf).collect()
}

/// Fills `into` with the entries of the host's folder `from`. Entries are bound, except for folders that a mount path
/// goes through: these become new folders, filled in the same way.
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
            // A folder that cannot be bound (it vanished, or its kind refuses) stays empty.
            let _ = bind(&path, &place);
        } else {
            // Devices and sockets too: a bound file is of its source's kind.
            fs::File::create(&place)?;
            let _ = bind(&path, &place);
        }
    }
    Ok(())
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    mount(Some(source), target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE).map_err(io::Error::from)
}

/// Without a namespace: creates links to the volumes under `root`, and the working folder.
pub fn link(root: &Path, view: &View) -> io::Result<()> {
    let top = open_path(root)?;
    let mut placed: Vec<(PathBuf, OwnedFd)> = Vec::new();
    for volume in view.placed()? {
        let source = volume.open()?;
        let (folder, rest) = innermost(&top, &placed, &volume.target);
        if let (Some(parent), Some(name)) = (rest.parent(), rest.file_name()) {
            let parent = make_place(folder, parent, Kind::Folder)?;
            match symlinkat(&fs::read_link(path_of(&source))?, &parent, name) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        placed.push((volume.target, source));
    }
    if let Some(directory) = &view.directory {
        let directory = under(Path::new("/"), directory);
        let (folder, rest) = innermost(&top, &placed, &directory);
        // A folder behind a volume's link is not created. Entering it shows whether it exists.
        let _ = make_place(folder, &rest, Kind::Folder);
    }
    Ok(())
}

/// Returns the innermost volume around a path, or the root, and the rest of the path.
fn innermost<'a>(top: &'a OwnedFd, placed: &'a [(PathBuf, OwnedFd)], path: &Path) -> (&'a OwnedFd, PathBuf) {
    let around = placed.iter().rev().find(|(target, _)| path.starts_with(target));
    let (folder, rest) = match around {
        Some((target, folder)) => (folder, path.strip_prefix(target)),
        None => (top, path.strip_prefix("/")),
    };
    (folder, rest.unwrap_or(path).to_path_buf())
}

/// Returns `path` under `root`. Parts that would climb out of `root` are dropped.
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

    fn at(target: PathBuf) -> Mount {
        let (volume, sub_path) = ("/v".into(), PathBuf::new());
        Mount { volume, sub_path, make_missing: false, target, read_only: false }
    }

    fn view(targets: &[PathBuf]) -> View {
        View { mounts: targets.iter().cloned().map(at).collect(), ..View::default() }
    }

    #[test]
    fn a_target_behind_a_link_is_where_the_link_leads() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir(home.join("run")).unwrap();
        symlink(home.join("run"), home.join("var")).unwrap();
        let mounts = view(&[home.join("var/a/b"), home.join("var/a")]).placed().unwrap();
        assert_eq!(mounts, [at(home.join("run/a")), at(home.join("run/a/b"))]);
    }

    #[test]
    fn a_target_that_leads_to_programs_is_refused() {
        let home = tempfile::tempdir().unwrap();
        symlink("/usr/bin", home.path().join("link")).unwrap();
        for target in [home.path().join("link"), "/data/../lib".into()] {
            let refused = view(&[target]).placed().unwrap_err().to_string();
            assert!(refused.contains("would cover files that programs of the host load"), "{refused}");
        }
    }

    #[test]
    fn links_of_a_volume_do_not_lead_out_of_the_view_that_is_made_of_links() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for folder in ["root", "volume", "outside"] {
            fs::create_dir(home.join(folder)).unwrap();
        }
        symlink(home.join("outside"), home.join("volume/away")).unwrap();
        let outer = Mount { volume: home.join("volume"), ..at("/data".into()) };
        let inner = Mount { volume: home.join("volume"), ..at("/data/away/x".into()) };
        let mut both = View { mounts: vec![outer.clone(), inner], ..View::default() };
        let refused = link(&home.join("root"), &both).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::ENOTDIR as i32));
        both.mounts = vec![Mount { sub_path: "away".into(), target: "/sub".into(), ..outer.clone() }];
        let refused = link(&home.join("root"), &both).unwrap_err();
        assert_eq!(refused.to_string(), "cannot mount subPath \"away\" at /sub: leads out of its volume");
        both.mounts = vec![outer];
        both.directory = Some("/data/away/made".into());
        link(&home.join("root"), &both).unwrap();
        assert_eq!(fs::read_link(home.join("root/data")).unwrap(), home.join("volume"));
        assert_eq!(fs::read_dir(home.join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn folders_on_the_way_to_a_mount_are_opened() {
        let opened = opened_folders([Path::new("/book/src")].into_iter());
        assert_eq!(opened.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(), ["/", "/book"]);
    }
}
