//! A program's view of its volumes if the host gives its node fewer rights than root has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::Setup;
use super::super::cluster::Cluster;
use super::SOON;

/// Root without the right to mount: namespaces only within a user namespace.
const USER_NAMESPACE: &str = "exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$@\"";
/// And where there are no user namespaces either.
const NO_NAMESPACE: &str = "exec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && \
    exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$@\"' sh \"$@\"";

/// The volume stands at its mount path, or under the folder that a variable names, and follows its source.
pub fn run(setup: &Setup, kubectl: &Path) -> Result<()> {
    for (name, script, root) in
        [("user namespace", USER_NAMESPACE, "-"), ("no namespace", NO_NAMESPACE, "set")]
    {
        let folder = crate::e2e::folder::new()?;
        let wrapper = wrapper(folder.path(), script, &setup.setpoint)?;
        let probe = if root == "-" { &["unshare", "-Um", "true"][..] } else { &["true"] };
        if !allowed(script, probe)? {
            println!("e2e pods: skipped: {name}: this host does not let it be tried");
            continue;
        }
        super::write_images(folder.path(), &setup.setpoint)?;
        let cluster = Cluster::start_in(&wrapper, folder, &["--images", "images.toml"])?;
        volumes(&cluster, kubectl, root).context(name)?;
        cluster.terminate()?;
    }
    Ok(())
}

/// A program that starts ours under these restrictions.
fn wrapper(folder: &Path, script: &str, setpoint: &Path) -> Result<PathBuf> {
    let path = folder.join("restricted");
    let start = format!("set -- '{}' \"$@\"", setpoint.display());
    fs::write(&path, format!("#!/bin/sh\n{start}\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn allowed(script: &str, command: &[&str]) -> Result<bool> {
    Ok(Command::new("sh").args(["-c", script, "sh"]).args(command).output()?.status.success())
}

const POD: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {k: one}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: v, configMap: {name: c}}]
  containers:
  - name: main
    image: "shell:1"
    command: [sh, -c, "while :; do echo ${SETPOINT_ROOT:+set}- $(cat $SETPOINT_ROOT/deep/data/k); sleep 0.2; done"]
    volumeMounts: [{name: v, mountPath: /deep/data}]
"#;

fn volumes(cluster: &Cluster, kubectl: &Path, root: &str) -> Result<()> {
    let kubectl = cluster.kubectl(kubectl);
    kubectl.comes_to_print(&["get", "serviceaccounts"], "default", SOON)?;
    kubectl.feed(&["create", "-f", "-"], Some(POD))?;
    let told = if root == "-" { "-" } else { "set-" };
    kubectl.comes_to_print(&["logs", "p"], &format!("{told} one\n"), SOON)?;
    kubectl.ok(&["patch", "configmap", "c", "-p", "{\"data\":{\"k\":\"two\"}}"])?;
    kubectl.comes_to_print(&["logs", "p", "--tail=1"], &format!("{told} two\n"), SOON)?;
    let beside = kubectl.ok(&["exec", "p", "--", "sh", "-c", "cat $SETPOINT_ROOT/deep/data/k"])?;
    ensure!(beside == "two", "exec sees {beside:?}");
    Ok(())
}
