//! Leftovers of a killed server: no program, and after the next start no file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::Setup;
use super::super::cluster::{Cluster, Kubectl};
use super::SOON;

/// A cluster in memory keeps its pods' files among the host's temporary ones; the next cluster of this host removes
/// them.
pub fn of_memory(setup: &Setup, cluster: Cluster) -> Result<()> {
    let kubectl = cluster.kubectl(&setup.peer("kubectl")?);
    let files = pod_folder(&std::env::temp_dir(), &uid(&kubectl, "sh")?)?;
    let processes = processes_of(cluster.folder.path())?;
    ensure!(!processes.is_empty(), "no program runs");
    drop(cluster.kill()?);
    nothing_runs(&processes)?;
    ensure!(files.exists(), "nothing to clean: {}", files.display());
    let next = Cluster::start(&setup.setpoint, &[])?;
    ensure!(!files.exists(), "{} outlived its cluster", files.display());
    next.terminate().map(drop)
}

/// One with a data folder keeps them there; its next start begins afresh, and its end in order leaves none.
pub fn of_folder(setup: &Setup, kubectl: &Path) -> Result<()> {
    let folder = crate::e2e::folder::new()?;
    super::write_images(folder.path(), &setup.setpoint)?;
    let flags = ["--images", "images.toml", "--data-dir", "data"];
    let cluster = Cluster::start_in(&setup.setpoint, folder, &flags)?;
    let client = cluster.kubectl(kubectl);
    client.comes_to_print(&["get", "serviceaccounts"], "default", SOON)?;
    client.feed(&["create", "-f", "-"], Some(KEEPER))?;
    client.ok(&["wait", "--for=condition=Ready", "--timeout=60s", "pod/keeper", "pod/passing"])?;
    let home = cluster.folder.path().join("data/pods");
    let kept = pod_folder(&home, &uid(&client, "keeper")?)?;
    let passing = pod_folder(&home, &uid(&client, "passing")?)?;
    client.comes_to_print(&["logs", "keeper"], "files: old", SOON)?;
    let processes = processes_of(cluster.folder.path())?;
    ensure!(!processes.is_empty(), "no program runs");
    let folder = cluster.kill()?;
    nothing_runs(&processes)?;
    ensure!(kept.join("volumes/v/old").exists() && passing.exists(), "nothing to clean");

    // Without a node nothing of it is used again, and it goes all the same.
    let cluster = Cluster::start_in(&setup.setpoint, folder, &["--data-dir", "data", "--nodes", "0"])?;
    ensure!(!kept.exists() && !passing.exists(), "files outlived their cluster");
    cluster.kubectl(kubectl).ok(&["delete", "pod", "passing", "--force", "--grace-period=0"])?;
    let cluster = Cluster::start_in(&setup.setpoint, cluster.kill()?, &flags)?;
    let client = cluster.kubectl(kubectl);
    client.comes_to_print(&["logs", "keeper"], "files: old", SOON)?;
    ensure!(client.ok(&["logs", "keeper"])? == "files: old\n", "the volume was not empty again");
    ensure!(kept.exists() && !passing.exists(), "not the files of the pods that are");
    let processes = processes_of(cluster.folder.path())?;
    let folder = cluster.terminate()?;
    nothing_runs(&processes)?;
    ensure!(!folder.path().join("data/pods").exists(), "files outlived an end in order");
    Ok(())
}

/// One whose volume tells whether it was used before, and one that will be gone.
const KEEPER: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, emptyDir: {}}]
  containers:
  - name: main
    image: "shell:1"
    command: [sh, -c, "cd /v; touch old$(ls); echo files: $(ls); sleep 1000"]
    volumeMounts: [{name: v, mountPath: /v}]
---
apiVersion: v1
kind: Pod
metadata: {name: passing}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: "shell:1", command: [sh, -c, "sleep 1000"]}]
"#;

fn uid(kubectl: &Kubectl, pod: &str) -> Result<String> {
    kubectl.ok(&["get", "pod", pod, "-o", "jsonpath={.metadata.uid}"])
}

/// The folder of a pod's files somewhere below `home`.
fn pod_folder(home: &Path, uid: &str) -> Result<PathBuf> {
    let below = [home.join("pods").join(uid)];
    let others = std::fs::read_dir(home)?.flatten().map(|entry| entry.path().join("pods").join(uid));
    let found = below.into_iter().chain(others).find(|path| path.exists());
    found.with_context(|| format!("no folder of pod {uid} in {}", home.display()))
}

/// The programs whose environment says that they are of this cluster.
pub fn processes_of(folder: &Path) -> Result<Vec<u32>> {
    let kubeconfig = std::fs::read_to_string(folder.join("k.yaml"))?;
    let port = kubeconfig.split("https://127.0.0.1:").nth(1).unwrap_or_default();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let wanted = format!("KUBERNETES_SERVICE_PORT={port}\0");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if String::from_utf8_lossy(&environment).contains(&wanted) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// They end with their node, however that ended.
fn nothing_runs(processes: &[u32]) -> Result<()> {
    let deadline = Instant::now() + SOON;
    let alive = |pid: &u32| Path::new(&format!("/proc/{pid}/environ")).exists();
    while processes.iter().any(alive) {
        ensure!(Instant::now() < deadline, "programs outlived their node: {processes:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
