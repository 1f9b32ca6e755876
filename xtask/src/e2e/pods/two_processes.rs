//! A second process with a node of its own beside `setpoint up`, whose own node needs no socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::Setup;
use super::super::cluster::{Cluster, Kubectl};
use super::super::controllers::Controllers;
use super::forward::{PortForward, exchange};
use super::{SOON, left};

pub fn run(setup: &Setup, cluster: &Cluster, kubectls: &[PathBuf; 2]) -> Result<()> {
    let sockets = listening(cluster.pid())?;
    ensure!(sockets == 1, "setpoint up listens on {sockets} sockets, not on its API's alone");
    let flags = ["--only", "node", "--first-node", "1", "--images", "images.toml"];
    let kubeconfig = cluster.kubeconfig();
    let second = Controllers::start(&setup.setpoint, &kubeconfig, cluster.folder.path(), &flags)?;
    let kubectl = cluster.kubectl(&kubectls[0]);
    kubectl.comes_to_print(&["get", "nodes"], "setpoint-1", SOON)?;
    let manifest: String = (0..2).map(on_node).collect();
    kubectl.feed(&["create", "-f", "-"], Some(&manifest))?;
    kubectl.ok(&["wait", "--for=condition=Ready", "--timeout=60s", "pod/on-0", "pod/on-1"])?;
    kubectl.prints(&["get", "pod", "on-1", "-o", "jsonpath={.status.podIP}"], "10.244.1.")?;
    for program in kubectls {
        both(&cluster.kubectl(program)).with_context(|| program.display().to_string())?;
    }
    refusals(&kubectl, cluster.folder.path())?;
    let processes = left::processes_of(cluster.folder.path())?;
    ensure!(listening(second.0.id())? == 1, "the second process has one node and one socket");
    kubectl.ok(&["delete", "pod", "on-0", "on-1", "--timeout=30s"])?;
    drop(second);
    ensure!(processes.len() > left::processes_of(cluster.folder.path())?.len(), "nothing ended");
    kubectl.ok(&["delete", "node", "setpoint-1"]).map(drop)
}

/// A pod that echoes, and says so, on one of the nodes.
fn on_node(node: usize) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: on-{node}}}\nspec:\n  nodeSelector: {{kubernetes.io/hostname: setpoint-{node}}}\n  terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: main, image: 'echo:1', readinessProbe: {{tcpSocket: {{port: 80}}}}}}\n  - {{name: sh, image: 'shell:1', command: [sh, -c, 'echo here; sleep 1000']}}\n"
    )
}

/// Logs, exec and two forwards at once, through both nodes.
fn both(kubectl: &Kubectl) -> Result<()> {
    let mut forwards = Vec::new();
    for pod in ["on-0", "on-1"] {
        kubectl.comes_to_print(&["logs", pod, "-c", "main"], "listening on 127.", SOON)?;
        kubectl.comes_to_print(&["logs", pod, "-c", "sh"], "here", SOON)?;
        ensure!(kubectl.ok(&["logs", pod, "-c", "sh"])? == "here\n", "not the log of {pod}");
        let ran = kubectl.ok(&["exec", pod, "-c", "sh", "--", "sh", "-c", "echo $HOSTNAME"])?;
        ensure!(ran.trim() == pod, "exec in {pod} said {ran:?}");
        forwards.push(PortForward::start(kubectl, pod, ":80")?);
    }
    forwards.iter().try_for_each(|forward| exchange(forward.port))
}

/// The second node answers the API server, and refuses an administrator's certificate of the same authority.
fn refusals(kubectl: &Kubectl, folder: &Path) -> Result<()> {
    let words =
        ["get", "node", "setpoint-1", "-o", "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}"];
    let port = kubectl.ok(&words)?;
    for (field, file) in [("certificate", "admin.crt"), ("key", "admin.key")] {
        let path = format!("jsonpath={{.users[0].user.client-{field}-data}}");
        let data = kubectl.ok(&["config", "view", "--raw", "-o", &path])?;
        fs::write(folder.join("admin.b64"), data)?;
        let decoded = Command::new("base64").current_dir(folder).args(["-d", "admin.b64"]).output()?;
        fs::write(folder.join(file), decoded.stdout)?;
    }
    let admin = ["--cert", "admin.crt", "--key", "admin.key"];
    for (flags, wanted) in [(&[][..], "401"), (&admin[..], "403")] {
        let output = Command::new("curl")
            .current_dir(folder)
            .args(["-sk", "-o", "answer", "-w", "%{http_code}"])
            .args(flags)
            .arg(format!("https://127.0.0.1:{port}/containerLogs/default/on-1/sh"))
            .output()
            .context("curl")?;
        let code = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(code == wanted, "with {flags:?}: {code}, not {wanted}");
    }
    Ok(())
}

/// On how many sockets a process listens.
fn listening(pid: u32) -> Result<usize> {
    let mut inodes = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        // State 0A is LISTEN; the tenth field is the socket's inode.
        let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open = rows.filter(|row| row.get(3) == Some(&"0A"));
        inodes.extend(open.filter_map(|row| Some(format!("socket:[{}]", row.get(9)?))));
    }
    let files = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    Ok(targets.filter(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str())).count())
}
