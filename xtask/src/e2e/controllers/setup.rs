//! The same cluster put together in four ways: our server or the real one, our controllers or the real ones. The
//! scheduler, the node and the provisioner of volumes are ours in all four.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;
use setpoint_peers::{ControlPlane, ControllerManager, Options};

use super::super::Setup;
use super::super::cluster::Cluster;
use super::super::proxy::{Proxy, until};
use super::volumes;

/// Which parts are whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub name: &'static str,
    pub real_server: bool,
    pub real_controllers: bool,
}

/// The first is ours alone; the last is as real as it gets.
pub const ALL: [Parts; 4] = [
    Parts { name: "ours", real_server: false, real_controllers: false },
    Parts { name: "our controllers on kube-apiserver", real_server: true, real_controllers: false },
    Parts { name: "kube-controller-manager on our server", real_server: false, real_controllers: true },
    Parts { name: "kube-apiserver and kube-controller-manager", real_server: true, real_controllers: true },
];

/// With which the others are compared.
pub const REAL: Parts = ALL[3];

/// `setpoint controllers` as a process of its own; killed when dropped.
pub struct Controllers(pub Child);

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Controllers {
    /// They act at once.
    pub fn start(setpoint: &Path, kubeconfig: &Path, folder: &Path, flags: &[&str]) -> Result<Controllers> {
        let flags = [&["--no-leader-election"], flags].concat();
        Controllers::start_elected(setpoint, kubeconfig, folder, &flags)
    }

    /// They act while they hold the lease.
    pub fn start_elected(
        setpoint: &Path,
        kubeconfig: &Path,
        folder: &Path,
        flags: &[&str],
    ) -> Result<Controllers> {
        let log = File::options().create(true).append(true).open(folder.join("controllers.log"))?;
        let child = Command::new(setpoint)
            .current_dir(folder)
            .args(["controllers", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start setpoint controllers")?;
        Ok(Controllers(child))
    }
}

enum Server {
    Ours(Cluster),
    Real(ControlPlane),
}

/// A running cluster. Fields end in this order.
pub struct World {
    pub api: Proxy,
    pub parts: Parts,
    _controllers: Option<Controllers>,
    _manager: Option<ControllerManager>,
    server: Server,
    _folder: tempfile::TempDir,
}

impl World {
    /// Starts it with one node. `prepare` runs on the server before there are any controllers.
    pub fn start(setup: &Setup, parts: Parts, prepare: impl Fn(&Proxy) -> Result<()>) -> Result<World> {
        World::with_nodes(setup, parts, 1, prepare)
    }

    /// The same with several nodes.
    pub fn with_nodes(
        setup: &Setup,
        parts: Parts,
        nodes: u32,
        prepare: impl Fn(&Proxy) -> Result<()>,
    ) -> Result<World> {
        let count = nodes.to_string();
        let flags = ["--nodes", count.as_str()];
        let folder = crate::e2e::folder::new()?;
        let server = match (parts.real_server, parts.real_controllers) {
            (true, _) => Server::Real(setup.control_plane(folder.path(), &Options::default())?),
            (false, false) => Server::Ours(Cluster::start(&setup.setpoint, &flags)?),
            (false, true) => Server::Ours(Cluster::start(&setup.setpoint, &["--no-controllers"])?),
        };
        let kubeconfig = server.kubeconfig();
        let api = Proxy::start(&setup.peer("kubectl")?, &kubeconfig)?;
        prepare(&api)?;
        volumes::default_class(&api)?;
        let mut manager = None;
        if parts.real_controllers {
            let keys = folder.path();
            if !parts.real_server {
                setpoint_peers::write_keys(keys)?;
            }
            let all = ["*".to_owned()];
            manager = Some(ControllerManager::start(folder.path(), &kubeconfig, &all, keys)?);
        }
        let mut controllers = None;
        if parts.real_server || parts.real_controllers {
            let authority = folder.path().join("ca.crt").display().to_string();
            let own: &[&str] = match parts.real_controllers {
                true => &["--only", "scheduler,node,persistentvolume-provisioner"],
                false => &["--root-ca-file", &authority],
            };
            let flags = [own, &flags].concat();
            let started = Controllers::start(&setup.setpoint, &kubeconfig, folder.path(), &flags)?;
            controllers = Some(started);
        }
        until("all nodes take pods", || {
            let all = api.items("/api/v1/nodes")?;
            Ok((all.iter().filter(|node| takes_pods(node)).count() == nodes as usize).then_some(()))
        })?;
        Ok(World { api, parts, _controllers: controllers, _manager: manager, server, _folder: folder })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.server.kubeconfig()
    }
}

/// Whether a node is ready and has no taints. Before that, a pod would get an event that there is no node for it.
fn takes_pods(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.filter(|one| one["type"] == "Ready").any(|one| one["status"] == "True");
    ready && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
}

impl Server {
    fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Ours(cluster) => cluster.folder.path().join("k.yaml"),
            Server::Real(plane) => plane.kubeconfig(),
        }
    }
}
