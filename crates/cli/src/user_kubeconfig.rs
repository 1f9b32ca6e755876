//! The user's kubeconfig: a cluster's entries are merged into it and removed from it, as kind does.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use kube::config::Kubeconfig;

/// The files that kubectl reads: those of `KUBECONFIG`, or `~/.kube/config`.
pub fn files() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    if listed.is_empty() { home.into_iter().collect() } else { listed }
}

/// The file that kubectl writes to: the first one that exists, or else the last one.
pub fn default_file() -> Result<PathBuf> {
    let files = files();
    let existing = files.iter().find(|file| file.exists()).or_else(|| files.last());
    existing.cloned().context("neither KUBECONFIG nor HOME is set; give a file with --into")
}

/// Adds the only cluster of a kubeconfig under this name, replaces an older one, and makes it the current one.
pub fn merge(file: &Path, name: &str, cluster: &Path) -> Result<()> {
    let cluster = read(cluster)?.with_context(|| format!("there is no {}", cluster.display()))?;
    let no_entry = "the cluster's kubeconfig has no entry";
    let (mut server, mut user, mut context) = (
        cluster.clusters.into_iter().next().context(no_entry)?,
        cluster.auth_infos.into_iter().next().context(no_entry)?,
        cluster.contexts.into_iter().next().context(no_entry)?,
    );
    for entry in [&mut server.name, &mut user.name, &mut context.name] {
        name.clone_into(entry);
    }
    if let Some(context) = &mut context.context {
        name.clone_into(&mut context.cluster);
        context.user = Some(name.to_owned());
    }
    change(file, |users| {
        take(users, name);
        users.clusters.push(server);
        users.auth_infos.push(user);
        users.contexts.push(context);
        users.current_context = Some(name.to_owned());
        true
    })?;
    Ok(())
}

/// Removes the entries of this name. Returns whether there was one.
pub fn remove(file: &Path, name: &str) -> Result<bool> {
    if !read(file)?.is_some_and(|mut users| take(&mut users, name)) {
        return Ok(false);
    }
    change(file, |users| take(users, name))
}

fn take(users: &mut Kubeconfig, name: &str) -> bool {
    let count = |users: &Kubeconfig| users.clusters.len() + users.auth_infos.len() + users.contexts.len();
    let before = count(users);
    users.clusters.retain(|entry| entry.name != name);
    users.auth_infos.retain(|entry| entry.name != name);
    users.contexts.retain(|entry| entry.name != name);
    if users.current_context.as_deref() == Some(name) {
        users.current_context = None;
    }
    count(users) < before
}

fn read(file: &Path) -> Result<Option<Kubeconfig>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| format!("cannot read {}", file.display()))?,
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    // Not `read_from`: that makes the paths in it absolute.
    Ok(Some(Kubeconfig::from_yaml(&text).with_context(|| format!("cannot read {}", file.display()))?))
}

/// Reads, changes and writes the file under kubectl's lock. Returns what `change` returned.
fn change(file: &Path, change: impl FnOnce(&mut Kubeconfig) -> bool) -> Result<bool> {
    // A link is followed: the file behind it is replaced.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_path_buf());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = Lock::take(&file)?;
    let mut users = read(&file)?.unwrap_or_else(|| Kubeconfig {
        kind: Some("Config".into()),
        api_version: Some("v1".into()),
        ..Kubeconfig::default()
    });
    let changed = change(&mut users);
    let text = serde_saphyr::to_string(&users).context("the kubeconfig has no YAML form")?;
    let mode = fs::metadata(&file).map_or(0o600, |facts| facts.permissions().mode());
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    written.as_file().set_permissions(Permissions::from_mode(mode))?;
    written.persist(&file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(changed)
}

/// The lock that kubectl takes: a file beside the kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path) -> Result<Lock> {
        let mut name = file.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(
                "{} is locked by another program; if none is running, remove {}",
                file.display(),
                path.display()
            ),
            Err(error) => Err(error).with_context(|| format!("cannot create {}", path.display())),
            Ok(_) => Ok(Lock(path)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "
clusters: [{name: setpoint, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: admin, user: {client-key-data: eA==}}]
contexts: [{name: setpoint, context: {cluster: setpoint, user: admin}}]
";
    const THEIRS: &str = "
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- name: work
  cluster: {server: 'https://work', certificate-authority: ca.crt, own-field: kept}
users:
- name: me
  user: {token: '0123', exec: {apiVersion: client.authentication.k8s.io/v1, command: login, args: ['1e3'], interactiveMode: Never, provideClusterInfo: false}}
contexts:
- name: work
  context: {cluster: work, user: me, namespace: 'on'}
";

    fn value(file: &Path) -> serde_json::Value {
        serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn a_cluster_comes_and_goes_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ours) = (folder.path().join("config"), folder.path().join("ours"));
        fs::write(&file, THEIRS).unwrap();
        fs::write(&ours, OURS).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = value(&file);
        merge(&file, "setpoint-default", &ours).unwrap();
        // Twice, as after a restart: it is replaced.
        merge(&file, "setpoint-default", &ours).unwrap();
        let merged = value(&file);
        assert_eq!(merged["current-context"], "setpoint-default");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["contexts"][1]["context"]["user"], "setpoint-default");
        assert_eq!(merged["users"][0], before["users"][0]);
        assert!(remove(&file, "setpoint-default").unwrap() && !remove(&file, "setpoint-default").unwrap());
        let mut after = value(&file);
        assert!(after.get("current-context").is_none());
        after["current-context"] = "work".into();
        assert_eq!(after, before);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_new_file_is_the_owners_and_a_locked_one_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ours) = (folder.path().join("new/config"), folder.path().join("ours"));
        fs::write(&ours, OURS).unwrap();
        merge(&file, "setpoint-default", &ours).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let lock = folder.path().join("new/config.lock");
        assert!(!lock.exists());
        fs::write(&lock, "").unwrap();
        let refused = remove(&file, "setpoint-default").unwrap_err().to_string();
        assert!(refused.contains("locked") && refused.contains("config.lock"), "{refused}");
        assert!(lock.exists() && value(&file)["current-context"] == "setpoint-default");
    }
}
