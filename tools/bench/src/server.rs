//! The servers under load: ours, and the real kube-apiserver with etcd. Each is a child that dies with its handle.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use setpoint_peers::ControlPlane;

use crate::connection::Call;
use crate::connection::{Connection, Target, client_config};

/// A running server and the processes that it consists of.
pub struct Server {
    pub name: &'static str,
    pub target: Target,
    /// From starting the process to the first 200 on `/readyz`.
    pub start: Duration,
    processes: Processes,
    _folder: tempfile::TempDir,
}

enum Processes {
    Ours(Child),
    Theirs(ControlPlane),
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Processes::Ours(child) = &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The kernel's counters of a server's processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

impl Server {
    /// CPU time and memory of all its processes.
    pub fn usage(&self) -> Result<Usage> {
        let pids = match &self.processes {
            Processes::Ours(child) => vec![child.id()],
            Processes::Theirs(plane) => plane.server_pids().to_vec(),
        };
        let mut sum = Usage::default();
        for pid in pids {
            let usage = usage(pid)?;
            sum.cpu += usage.cpu;
            sum.resident_bytes += usage.resident_bytes;
        }
        Ok(sum)
    }

    /// No controllers run: the account that pods of the namespace `default` need is made by hand.
    pub async fn prepare(&self) -> Result<()> {
        self.make_account("default").await
    }

    /// A namespace with the account that its pods need.
    pub async fn make_namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.make("/api/v1/namespaces", &namespace).await?;
        self.make_account(name).await
    }

    async fn make_account(&self, namespace: &str) -> Result<()> {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        self.make(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await
    }

    async fn make(&self, path: &str, object: &Value) -> Result<()> {
        const JSON: &str = "application/json";
        let body = object.to_string().into();
        let call =
            Call { method: Method::POST, path: path.into(), content_type: Some(JSON), accept: JSON, body };
        Connection::open(&self.target).await?.call(&call).await?;
        Ok(())
    }
}

/// CPU time and memory of one process.
pub fn usage(pid: u32) -> Result<Usage> {
    // The kernel counts in ticks of 10 ms on every Linux that Rust supports.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    let pages: u64 = fields[21].parse()?;
    Ok(Usage { cpu: TICK * ticks, resident_bytes: pages * 4096 })
}

/// Which backend a server runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Memory for ours, no fsync for the peer.
    None,
    /// Both fsync before they answer.
    Fsync,
}

/// Arguments that make `setpoint up` an API server alone.
pub const BARE: &[&str] = &["--no-controllers", "--nodes", "0"];

/// Starts ours, the API server alone.
pub async fn setpoint(program: &Path, durability: Durability) -> Result<Server> {
    start_setpoint(program, durability, BARE).await
}

/// Starts ours with these arguments.
pub async fn start_setpoint(program: &Path, durability: Durability, arguments: &[&str]) -> Result<Server> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let mut command = Command::new(program);
    command.args(["up", "--port", "0", "--kubeconfig"]).arg(&kubeconfig).args(arguments);
    if durability == Durability::Fsync {
        command.arg("--data-dir").arg(folder.path().join("data"));
    }
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("setpoint")?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
    let address = line.split_whitespace().nth(1).and_then(|url| url.strip_prefix("https://"));
    let Some(address) = address else { bail!("setpoint said {line:?} instead of being ready") };
    let target = target(&kubeconfig, address.to_owned())?;
    let start = ready(&target, began).await?;
    Ok(Server { name: "setpoint", target, start, processes: Processes::Ours(child), _folder: folder })
}

/// Reads the administrator's access from one of our kubeconfigs.
pub fn target(kubeconfig: &Path, address: String) -> Result<Target> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let authority = kubeconfig_data(&text, "certificate-authority-data:")?;
    let certificate = kubeconfig_data(&text, "client-certificate-data:")?;
    let key = kubeconfig_data(&text, "client-key-data:")?;
    Ok(Target { address, tls: client_config(&authority, Some((&certificate, &key)))?, token: None })
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
        ..setpoint_peers::Options::default()
    };
    let began = Instant::now();
    let plane = ControlPlane::spawn(folder.path(), &options)?;
    let authority = std::fs::read(plane.kubelet_client_ca())?;
    let target = Target {
        address: plane.address(),
        tls: client_config(&authority, None)?,
        token: Some("token-of-admin".to_owned()),
    };
    let start = ready(&target, began).await?;
    Ok(Server { name: "kube-apiserver", target, start, processes: Processes::Theirs(plane), _folder: folder })
}

/// Waits until `/readyz` says so.
pub async fn ready(target: &Target, began: Instant) -> Result<Duration> {
    let deadline = began + Duration::from_secs(120);
    let call = Call {
        method: Method::GET,
        path: "/readyz".into(),
        content_type: None,
        accept: "*/*",
        body: Bytes::new(),
    };
    loop {
        if let Ok(mut connection) = Connection::open(target).await
            && connection.call(&call).await.is_ok()
        {
            return Ok(began.elapsed());
        }
        if Instant::now() > deadline {
            bail!("not ready after two minutes");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reports the cost of one fsync, which bounds durable writes.
pub fn report_sync() -> Result<()> {
    const TIMES: u32 = 200;
    let mut file = tempfile::tempfile()?;
    let began = Instant::now();
    for _ in 0..TIMES {
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
    }
    let each = began.elapsed() / TIMES;
    println!(
        "#   one fsync of 4 KB takes {:.0} us here: {:.0} in a second",
        each.as_secs_f64() * 1e6,
        1.0 / each.as_secs_f64()
    );
    Ok(())
}
