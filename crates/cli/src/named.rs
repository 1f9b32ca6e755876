//! Clusters with a name: a folder each in the user's state. The process of a cluster holds the lock in its folder, so
//! that a cluster is running exactly as long as its lock is held, however its process ends.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// The name of a cluster: a DNS label, because contexts and folders are called by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterName(String);

/// The name of the cluster of commands that name none.
pub const DEFAULT_NAME: &str = "default";

impl FromStr for ClusterName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '-';
        let edge = |sign: char| sign != '-' && allowed(sign);
        if text.len() > 63 || !text.chars().all(allowed) || !text.starts_with(edge) || !text.ends_with(edge) {
            bail!("use at most 63 lower-case letters, digits and '-', no '-' at an end");
        }
        Ok(ClusterName(text.to_owned()))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterName {
    /// The name of the cluster's context in the user's kubeconfig.
    pub fn context(&self) -> String {
        format!("setpoint-{}", self.0)
    }
}

/// Facts about a running cluster, for other commands.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Facts {
    /// The process.
    pub pid: u32,
    /// The URL of the API server.
    pub server: String,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
    /// The folder of its objects, or none if they live in memory.
    pub data_dir: Option<PathBuf>,
    /// The start, in seconds since 1970.
    pub started: u64,
}

/// The state of a named cluster.
#[derive(Debug)]
pub enum State {
    /// A process holds the lock. It has written its facts unless it is starting.
    Running(Option<Facts>),
    /// The process ended without removing its folder.
    Crashed,
    /// There is no such cluster.
    Absent,
}

/// A cluster by its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name.
    pub name: ClusterName,
    folder: PathBuf,
}

const LOCK: &str = "lock";
const FACTS: &str = "cluster.json";
const KUBECONFIG: &str = "kubeconfig";
const LOG: &str = "log";
const CONTROL: &str = "control";

/// The folder of all named clusters: `$XDG_STATE_HOME/setpoint/clusters`, or that of `~/.local/state`.
fn home() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = from("XDG_STATE_HOME").or_else(|| Some(from("HOME")?.join(".local/state")));
    let state =
        state.context("neither XDG_STATE_HOME nor HOME is set, so there is no place for named clusters")?;
    Ok(state.join("setpoint/clusters"))
}

impl Named {
    /// The cluster with this name, whether it exists or not.
    pub fn of(name: ClusterName) -> Result<Named> {
        let folder = home()?.join(&name.0);
        Ok(Named { name, folder })
    }

    /// All clusters that have a folder, by their names.
    pub fn all() -> Result<Vec<Named>> {
        let home = home()?;
        let entries = match fs::read_dir(&home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.with_context(|| format!("cannot read {}", home.display()))?,
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut names: Vec<ClusterName> = names.collect();
        names.sort();
        names.into_iter().map(Named::of).collect()
    }

    /// Its kubeconfig, unless another place was asked for.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }

    /// Creates the log of a cluster in the background, empty. The handle also reads.
    pub fn create_log(&self) -> Result<File> {
        self.create_folder()?;
        let path = self.folder.join(LOG);
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&path);
        opened.with_context(|| format!("cannot write {}", path.display()))
    }

    /// The place of that log.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// The socket on which its process takes requests of other commands.
    pub fn control(&self) -> PathBuf {
        self.folder.join(CONTROL)
    }

    fn create_folder(&self) -> Result<()> {
        // The kubeconfig in it is an administrator's.
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        created.with_context(|| format!("cannot create {}", self.folder.display()))
    }

    /// Whether it runs.
    pub fn state(&self) -> Result<State> {
        let lock = match File::open(self.folder.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Absent),
            opened => opened.with_context(|| format!("cannot read {}", self.folder.display()))?,
        };
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(State::Running(self.facts())),
            Err(TryLockError::Error(error)) => Err(error).context("cannot lock the cluster's folder"),
            Ok(()) => Ok(State::Crashed),
        }
    }

    fn facts(&self) -> Option<Facts> {
        serde_json::from_slice(&fs::read(self.folder.join(FACTS)).ok()?).ok()
    }

    /// The facts of the cluster.
    ///
    /// # Errors
    /// If it does not run.
    pub fn running(&self) -> Result<Facts> {
        match self.state()? {
            State::Running(Some(facts)) => Ok(facts),
            State::Running(None) => bail!("the cluster {} is starting; try again", self.name),
            State::Crashed | State::Absent => bail!(
                "no cluster {} is running; `setpoint up --detach --name {}` starts one",
                self.name,
                self.name
            ),
        }
    }

    /// Makes this process the cluster's.
    ///
    /// # Errors
    /// If another process is.
    pub fn claim(&self) -> Result<Claim> {
        loop {
            self.create_folder()?;
            let path = self.folder.join(LOCK);
            let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
            match lock.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    let process =
                        self.facts().map_or(String::new(), |facts| format!(" (process {})", facts.pid));
                    bail!(
                        "a cluster {} is running already{process}; stop it with `setpoint down {}`, or choose \
                         another --name",
                        self.name,
                        self.name
                    )
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).context("cannot lock the cluster's folder");
                }
                Ok(()) => {}
            }
            // The last holder may have removed the file between the opening and the locking.
            if is_still(&path, &lock) {
                remove(&self.folder.join(FACTS))?;
                return Ok(Claim { named: self.clone(), lock });
            }
        }
    }

    /// Removes what a crashed cluster has left.
    pub fn clear(&self) -> Result<()> {
        drop(self.claim()?);
        Ok(())
    }

    /// Waits until no process holds the lock.
    pub fn ended(&self) -> Result<()> {
        match File::open(self.folder.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => Ok(opened?.lock()?),
        }
    }
}

fn is_still(path: &Path, lock: &File) -> bool {
    let (Ok(there), Ok(held)) = (fs::metadata(path), lock.metadata()) else { return false };
    (there.dev(), there.ino()) == (held.dev(), held.ino())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The right of one process to be the cluster of a name. Dropping it removes the cluster's folder.
#[derive(Debug)]
pub struct Claim {
    named: Named,
    lock: File,
}

impl Claim {
    /// Tells other commands about this cluster.
    pub fn publish(&self, facts: &Facts) -> Result<()> {
        ensure!(is_still(&self.named.folder.join(LOCK), &self.lock), "somebody removed the cluster's folder");
        let mut file = tempfile::NamedTempFile::new_in(&self.named.folder)?;
        file.write_all(&serde_json::to_vec(facts)?)?;
        // Readers see all of it or nothing.
        file.persist(self.named.folder.join(FACTS))?;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let folder = &self.named.folder;
        // The lock goes last, and still held: who opens it meanwhile finds that it is no longer there. A folder with
        // other files in it stays.
        for name in [FACTS, KUBECONFIG, LOG, CONTROL, LOCK] {
            let _ = fs::remove_file(folder.join(name));
        }
        let _ = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folder: &Path) -> Named {
        Named { name: "a".parse().unwrap(), folder: folder.join("a") }
    }

    #[test]
    fn a_name_is_a_label() {
        for wrong in ["", "A", "a_b", "../a", "-a", "a-", &"a".repeat(64)] {
            assert!(wrong.parse::<ClusterName>().is_err(), "{wrong}");
        }
        let contexts = ["default", "second-1"].map(|name| name.parse::<ClusterName>().unwrap().context());
        assert_eq!(contexts, ["setpoint-default", "setpoint-second-1"]);
    }

    #[test]
    fn a_cluster_is_running_as_long_as_its_lock_is_held() {
        let home = tempfile::tempdir().unwrap();
        let named = named(home.path());
        assert!(matches!(named.state().unwrap(), State::Absent));
        let claim = named.claim().unwrap();
        assert!(matches!(named.state().unwrap(), State::Running(None)));
        assert!(named.claim().unwrap_err().to_string().contains("setpoint down a"));
        let facts = Facts {
            pid: 7,
            server: "https://127.0.0.1:1".into(),
            kubeconfig: named.kubeconfig(),
            data_dir: None,
            started: 1,
        };
        claim.publish(&facts).unwrap();
        assert_eq!(named.running().unwrap().pid, 7);
        assert!(named.claim().unwrap_err().to_string().contains("(process 7)"));
        drop(claim);
        assert!(!named.folder.exists() && named.running().is_err());
    }

    #[test]
    fn what_a_crash_leaves_is_found_and_cleared() {
        let home = tempfile::tempdir().unwrap();
        let named = named(home.path());
        fs::create_dir_all(&named.folder).unwrap();
        for name in [LOCK, FACTS, LOG] {
            fs::write(named.folder.join(name), "").unwrap();
        }
        assert!(matches!(named.state().unwrap(), State::Crashed));
        named.clear().unwrap();
        assert!(!named.folder.exists());
    }
}
