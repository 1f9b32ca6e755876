//! Node options that `up` and `controllers` share.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use setpoint_node::ImageTable;
use setpoint_node::plain_file;

/// Reads `--images`.
pub fn image_table(file: Option<&Path>) -> Result<ImageTable> {
    let Some(path) = file else { return Ok(ImageTable::default()) };
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    ImageTable::parse(&text).with_context(|| path.display().to_string())
}

/// Environment variables with which client libraries in a pod find the API server.
pub fn api_environment(host: &str, port: u16) -> Vec<(String, String)> {
    let port = port.to_string();
    [
        ("KUBERNETES_SERVICE_HOST", host),
        ("KUBERNETES_SERVICE_PORT", port.as_str()),
        ("KUBERNETES_SERVICE_PORT_HTTPS", port.as_str()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// Prefix of our folders in the host's temporary folder.
const PREFIX: &str = "setpoint-pods-";
/// The file in such a folder whose lock its owner holds. The lock ends with the process, in whatever way.
const LOCK: &str = "owner.lock";

/// The folder of process pods, and the number that separates this cluster's loopback addresses from another's. The
/// folder is removed with this handle. After a `kill -9` the next start of any cluster removes it.
pub struct PodFolder {
    /// The folder.
    pub path: PathBuf,
    /// Number that separates the loopback addresses of two clusters.
    pub cluster: u8,
    /// `None` for a folder inside the data folder, which may be another cluster's until the store is opened.
    lock: Option<File>,
}

impl PodFolder {
    /// Creates the folder: in the data folder, which the store's own lock guards, or in the temporary folder.
    pub fn make(data: Option<&Path>) -> Result<PodFolder> {
        let cluster = (std::process::id() % 15) as u8;
        if let Some(data) = data {
            let path = std::path::absolute(data.join("pods"))?;
            return Ok(PodFolder { path, cluster, lock: None });
        }
        let home = std::env::temp_dir();
        sweep(&home);
        let (path, lock) = locked_folder(&home).with_context(|| format!("cannot use {}", home.display()))?;
        Ok(PodFolder { path, cluster, lock: Some(lock) })
    }

    /// Removes the folder after its cluster stopped. In a data folder, PersistentVolumes and their files stay.
    pub fn remove(self) {
        // The next start removes files that cannot be removed now.
        if self.lock.is_some() {
            let _ = fs::remove_dir_all(&self.path);
        } else {
            self.clear();
            // Does nothing unless the folder is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes files of the previous run's pods.
    pub fn clear(&self) {
        let _ = fs::remove_dir_all(self.path.join("pods"));
    }
}

impl Drop for PodFolder {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates a folder whose lock is held from the moment that the lock is visible.
fn locked_folder(home: &Path) -> io::Result<(PathBuf, File)> {
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(home)?;
    let hidden = folder.path().join(".lock");
    let lock = File::create(&hidden)?;
    lock.lock()?;
    fs::rename(&hidden, folder.path().join(LOCK))?;
    Ok((folder.keep(), lock))
}

/// Removes the folders whose owners are gone.
fn sweep(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder without a lock file is being created. Every user may write here: a pipe in place of the lock would
        // block the start.
        if is_own_folder(&entry.path())
            && let Ok((lock, _)) = plain_file::open(&entry.path().join(LOCK))
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether this is a folder of the present user.
fn is_own_folder(path: &Path) -> bool {
    let user = nix::unistd::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir() && facts.uid() == user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_of_another_user_does_not_hold_the_start_up() {
        let home = tempfile::tempdir().unwrap();
        for name in ["pipe", "link"] {
            fs::create_dir(home.path().join(format!("{PREFIX}{name}"))).unwrap();
        }
        let lock = |name: &str| home.path().join(format!("{PREFIX}{name}")).join(LOCK);
        nix::unistd::mkfifo(&lock("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(home.path().join("target"), "").unwrap();
        std::os::unix::fs::symlink(home.path().join("target"), lock("link")).unwrap();
        sweep(home.path());
        assert!(lock("pipe").exists() && lock("link").exists(), "neither has an owner who is gone");
    }

    #[test]
    fn a_folder_goes_when_its_owner_is_gone_and_not_before() {
        let home = tempfile::tempdir().unwrap();
        let (owned, lock) = locked_folder(home.path()).unwrap();
        let (left, gone) = locked_folder(home.path()).unwrap();
        fs::create_dir(home.path().join("setpoint-pods-being-made")).unwrap();
        fs::create_dir(home.path().join("of-others")).unwrap();
        drop(gone);
        sweep(home.path());
        assert!(owned.exists() && !left.exists());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3);
        drop(lock);
        sweep(home.path());
        assert!(!owned.exists());
    }

    #[test]
    fn a_data_folder_keeps_what_is_in_volumes() {
        let data = tempfile::tempdir().unwrap();
        for (volume, left) in [("", false), ("volumes/v", true)] {
            let folder = PodFolder::make(Some(data.path())).unwrap();
            let path = folder.path.clone();
            fs::create_dir_all(path.join("pods/uid")).unwrap();
            fs::create_dir_all(path.join(volume)).unwrap();
            folder.remove();
            assert!(!path.join("pods").exists());
            assert_eq!(path.exists(), left, "{volume:?}");
        }
    }
}
