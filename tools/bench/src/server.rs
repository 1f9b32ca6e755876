//! The servers under load: ours, and the real kube-apiserver with etcd. Each is a child that dies with its handle.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use bytes::Bytes;
use http::Method;
use setpoint_peers::ControlPlane;

use crate::connection::{Connection, Target, client_config};

/// A running server and the processes that it consists of.
pub struct Server {
    pub target: Target,
    /// From starting the process to the first 200 on `/readyz`.
    pub start: Duration,
    processes: Processes,
    _folder: tempfile::TempDir,
}

/// What runs, and ends with the handle.
enum Processes {
    Ours(Child),
    Real(ControlPlane),
}

impl Processes {
    fn ids(&self) -> Vec<u32> {
        match self {
            Processes::Ours(child) => vec![child.id()],
            Processes::Real(plane) => plane.server_pids().to_vec(),
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if let Processes::Ours(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the kernel counted for a server's processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

impl Server {
    /// CPU time and memory of all its processes.
    pub fn usage(&self) -> Result<Usage> {
        let mut sum = Usage::default();
        for id in self.processes.ids() {
            let usage = usage(id)?;
            sum.cpu += usage.cpu;
            sum.resident_bytes += usage.resident_bytes;
        }
        Ok(sum)
    }
}

pub fn usage(pid: u32) -> Result<Usage> {
    // The kernel counts in ticks of 10 ms on every Linux that Rust supports.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    let pages: u64 = fields[21].parse()?;
    Ok(Usage { cpu: TICK * ticks, resident_bytes: pages * 4096 })
}

/// Which backend ours runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Memory for ours, no fsync for the peer.
    None,
    /// Both fsync before they answer.
    Fsync,
}

/// Starts ours.
pub async fn setpoint(program: &Path, durability: Durability) -> Result<Server> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let mut command = Command::new(program);
    command.args(["up", "--port", "0", "--no-controllers", "--nodes", "0", "--kubeconfig"]).arg(&kubeconfig);
    if durability == Durability::Fsync {
        command.arg("--data-dir").arg(folder.path().join("data"));
    }
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("setpoint")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let address = line.split_whitespace().nth(1).and_then(|url| url.strip_prefix("https://"));
    let Some(address) = address else { bail!("setpoint said {line:?} instead of being ready") };
    let text = std::fs::read_to_string(&kubeconfig)?;
    let authority = kubeconfig_data(&text, "certificate-authority-data:")?;
    let certificate = kubeconfig_data(&text, "client-certificate-data:")?;
    let key = kubeconfig_data(&text, "client-key-data:")?;
    let tls = client_config(&authority, Some((&certificate, &key)))?;
    let target = Target { address: address.to_owned(), tls, token: None };
    let mut server =
        Server { target, start: Duration::ZERO, processes: Processes::Ours(child), _folder: folder };
    server.start = ready(&server.target, began).await?;
    Ok(server)
}

pub fn kubeconfig_data(text: &str, name: &str) -> Result<Vec<u8>> {
    let mut lines = text.lines().map(|line| line.trim_start_matches([' ', '-']));
    let line = lines.find(|line| line.starts_with(name));
    let mut data = line.with_context(|| format!("no {name} in the kubeconfig"))?[name.len()..].trim();
    // A long text may stand on a line of its own.
    if data.starts_with('>') {
        data = lines.next().unwrap_or_default().trim();
    }
    Ok(base64::engine::general_purpose::STANDARD.decode(data.trim_matches('"'))?)
}

/// Starts etcd and kube-apiserver.
pub async fn kube_apiserver(durability: Durability) -> Result<Server> {
    let folder = tempfile::tempdir()?;
    let options = setpoint_peers::Options {
        fsync: durability == Durability::Fsync,
        apiserver_flags: vec!["--disable-admission-plugins=ServiceAccount".to_owned()],
        ..Default::default()
    };
    let began = Instant::now();
    let plane = ControlPlane::spawn(folder.path(), &options)?;
    let tls = client_config(&std::fs::read(plane.authority())?, None)?;
    let target = Target { address: plane.address(), tls, token: Some("token-of-admin".to_owned()) };
    let processes = Processes::Real(plane);
    let mut server = Server { target, start: Duration::ZERO, processes, _folder: folder };
    server.start = ready(&server.target, began).await?;
    Ok(server)
}

/// Waits until `/readyz` says so.
pub async fn ready(target: &Target, began: Instant) -> Result<Duration> {
    let deadline = began + Duration::from_secs(120);
    loop {
        if let Ok(mut connection) = Connection::open(target).await
            && connection.call(Method::GET, "/readyz", None, Bytes::new()).await.is_ok()
        {
            return Ok(began.elapsed());
        }
        if Instant::now() > deadline {
            bail!("not ready after two minutes");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
