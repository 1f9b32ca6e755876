//! A server with its controllers: our cluster, or the real one with kube-controller-manager.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use setpoint_peers::ControlPlane;

use crate::connection::Call;
use crate::connection::{Connection, Target, client_config};
use crate::server::{Usage, kubeconfig_data, ready, usage};

/// Controllers that kube-controller-manager runs by default and our cluster has too, without scheduler and nodes.
const CONTROLLERS: &str = "deployment,replicaset,statefulset,daemonset,garbage,namespace,serviceaccount,rootca,endpoints,\
    endpointslice,nodelifecycle,tainteviction,podgc,disruption,persistentvolumeclaim-protection,persistentvolume-protection,\
    volumeattributesclass-protection";

/// The programs beside the controllers: nodes, and a scheduler that gives them pods.
#[derive(Clone, Copy)]
pub struct Workload {
    pub nodes: u32,
    pub scheduler: bool,
}

/// A running pair of server and controllers; it ends with this handle.
pub struct Pair {
    pub target: Target,
    /// Ours, or our nodes beside the real pair.
    own: Option<Child>,
    plane: Option<ControlPlane>,
    _folder: tempfile::TempDir,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if let Some(child) = &mut self.own {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Pair {
    /// `setpoint up`.
    pub async fn ours(program: &Path, workload: Workload) -> Result<Pair> {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(program);
        command.args(["up", "--port", "0", "--nodes", &workload.nodes.to_string(), "--kubeconfig"]);
        command.arg(&kubeconfig);
        if !workload.scheduler {
            command.args(["--only", CONTROLLERS]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("setpoint")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.split_whitespace().nth(1).and_then(|url| url.strip_prefix("https://"));
        let Some(address) = address else { bail!("setpoint said {line:?} instead of being ready") };
        let text = std::fs::read_to_string(&kubeconfig)?;
        let certificate = kubeconfig_data(&text, "client-certificate-data:")?;
        let key = kubeconfig_data(&text, "client-key-data:")?;
        let authority = kubeconfig_data(&text, "certificate-authority-data:")?;
        let tls = client_config(&authority, Some((&certificate, &key)))?;
        let target = Target { address: address.to_owned(), tls, token: None };
        let pair = Pair { target, own: Some(child), plane: None, _folder: folder };
        pair.complete(workload).await
    }

    /// etcd, kube-apiserver and kube-controller-manager, with our scheduler and nodes where pods must run.
    pub async fn real(program: &Path, workload: Workload) -> Result<Pair> {
        let folder = tempfile::tempdir()?;
        let options = setpoint_peers::Options {
            controller_manager: Some(vec!["*".to_owned()]),
            ..setpoint_peers::Options::default()
        };
        let plane = ControlPlane::start(folder.path(), &options)?;
        let own = match workload.scheduler {
            false => None,
            true => Some(
                Command::new(program)
                    .args(["controllers", "--no-leader-election", "--only", "scheduler,node"])
                    .args(["--nodes", &workload.nodes.to_string(), "--kubeconfig"])
                    .arg(plane.kubeconfig())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .context("setpoint controllers")?,
            ),
        };
        let tls = client_config(&std::fs::read(plane.authority())?, None)?;
        let target = Target { address: plane.address(), tls, token: Some("token-of-admin".to_owned()) };
        let pair = Pair { target, own, plane: Some(plane), _folder: folder };
        pair.complete(workload).await
    }

    /// Waits until pods can be created and run.
    async fn complete(self, workload: Workload) -> Result<Pair> {
        ready(&self.target, Instant::now()).await?;
        let mut connection = Connection::open(&self.target).await?;
        let account = "/api/v1/namespaces/default/serviceaccounts/default".to_owned();
        // A name that the last of the nodes has.
        let node = workload.nodes.checked_sub(1).map(|last| format!("/api/v1/nodes/setpoint-{last}"));
        for path in [Some(account), node].into_iter().flatten() {
            let deadline = Instant::now() + Duration::from_secs(60);
            while connection.call(&Call::get(&path)).await.is_err() {
                if Instant::now() > deadline {
                    bail!("no {path} after a minute");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        // Informers and leases come to rest.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(self)
    }

    /// CPU time and memory of all its processes.
    pub fn usage(&self) -> Result<Usage> {
        let mut ids: Vec<u32> = self.own.iter().map(Child::id).collect();
        if let Some(plane) = &self.plane {
            ids.extend(plane.server_pids());
            ids.extend(plane.controller_manager_pid());
        }
        let mut sum = Usage::default();
        for id in ids {
            let usage = usage(id)?;
            sum.cpu += usage.cpu;
            sum.resident_bytes += usage.resident_bytes;
        }
        Ok(sum)
    }
}
