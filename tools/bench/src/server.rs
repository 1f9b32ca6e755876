//! The servers under load: ours, and the real kube-apiserver with etcd. Each is a child that dies with its handle.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;
use bytes::Bytes;
use http::Method;

use crate::connection::{Connection, Target, client_config};

/// A running server and the processes that it consists of.
pub struct Server {
    pub target: Target,
    /// From starting the process to the first 200 on `/readyz`.
    pub start: Duration,
    children: Vec<Child>,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
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
        for child in &self.children {
            let usage = usage(child.id())?;
            sum.cpu += usage.cpu;
            sum.resident_bytes += usage.resident_bytes;
        }
        Ok(sum)
    }
}

fn usage(pid: u32) -> Result<Usage> {
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
    let tls = client_config(Some(&authority), Some((&certificate, &key)))?;
    let target = Target { address: address.to_owned(), tls, token: None };
    let mut server = Server { target, start: Duration::ZERO, children: vec![child], _folder: folder };
    server.start = ready(&server.target, began).await?;
    Ok(server)
}

fn kubeconfig_data(text: &str, name: &str) -> Result<Vec<u8>> {
    let line =
        text.lines().map(|line| line.trim_start_matches([' ', '-'])).find(|line| line.starts_with(name));
    let data = line.with_context(|| format!("no {name} in the kubeconfig"))?[name.len()..].trim();
    Ok(base64::engine::general_purpose::STANDARD.decode(data.trim_matches('"'))?)
}

/// Starts etcd and kube-apiserver.
pub async fn kube_apiserver(peers: &Path, durability: Durability) -> Result<Server> {
    let folder = tempfile::tempdir()?;
    let (client, peer, port) = (free_port()?, free_port()?, free_port()?);
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new(peers.join("etcd"));
    etcd.arg("--data-dir").arg(folder.path().join("etcd"));
    etcd.args(["--listen-client-urls", &at(client), "--advertise-client-urls", &at(client)]);
    etcd.args(["--listen-peer-urls", &at(peer), "--initial-advertise-peer-urls", &at(peer)]);
    etcd.args(["--initial-cluster", &format!("default={}", at(peer)), "--log-level", "error"]);
    if durability == Durability::None {
        etcd.arg("--unsafe-no-fsync");
    }
    let token = "bench";
    std::fs::write(folder.path().join("tokens.csv"), format!("{token},admin,admin,system:masters\n"))?;
    service_account_key(folder.path())?;
    let mut apiserver = Command::new(peers.join("kube-apiserver"));
    apiserver
        .current_dir(folder.path())
        .args(["--etcd-servers", &at(client), "--secure-port", &port.to_string()])
        .args(["--bind-address", "127.0.0.1", "--cert-dir", "certs"])
        .args(["--service-account-issuer", "https://kubernetes.default.svc"])
        .args(["--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"])
        .args(["--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"])
        .args(["--token-auth-file", "tokens.csv", "--disable-admission-plugins", "ServiceAccount"]);
    let began = Instant::now();
    let silent = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let etcd = silent(&mut etcd).context("etcd")?;
    let apiserver = silent(&mut apiserver).context("kube-apiserver")?;
    let target = Target {
        address: format!("127.0.0.1:{port}"),
        tls: client_config(None, None)?,
        token: Some(token.to_owned()),
    };
    let mut server =
        Server { target, start: Duration::ZERO, children: vec![apiserver, etcd], _folder: folder };
    server.start = ready(&server.target, began).await?;
    Ok(server)
}

/// kube-apiserver wants a key of its own to sign tokens with.
fn service_account_key(folder: &Path) -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(folder.join("sa.key"), key.serialize_pem())?;
    std::fs::write(folder.join("sa.pub"), key.public_key_pem())?;
    Ok(())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits until `/readyz` says so.
async fn ready(target: &Target, began: Instant) -> Result<Duration> {
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
