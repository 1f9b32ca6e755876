//! The servers under attack: ours as `kube-apiserver` and as `setpoint up`, and the real one, all on loopback ports.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use serde_json::{Value, json};
use setpoint_peers::{ControlPlane, Options};
use setpoint_wire::certified::Certified;
use setpoint_wire::message::{Received, Sent};
use setpoint_wire::target::Target;
use setpoint_wire::tls::Pair;

use crate::certificates::Certificates;

/// Time that a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// A child of ours; it ends with this handle.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server and its clients.
pub struct Server {
    pub name: &'static str,
    pub clients: Arc<Certified>,
    /// The process whose memory counts.
    pub pid: u32,
    /// The log of the process.
    pub log: PathBuf,
    /// The user who wants small answers beside an attack.
    pub quiet: &'static str,
    /// Values that the steps of cases may name.
    pub known: Vec<(String, String)>,
    child: Option<Process>,
    _plane: Option<ControlPlane>,
    _folder: tempfile::TempDir,
}

/// Everything that a start needs.
pub struct Starter {
    pub setpoint: PathBuf,
    pub certificates: Arc<Certificates>,
    /// See [`Server::known`].
    pub known: Vec<(String, String)>,
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Starter {
    fn client_flags(&self, folder: &Path) -> Result<Vec<String>> {
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let clients = file("clients.crt", self.certificates.clients())?;
        let proxies = file("proxies.crt", self.certificates.proxies())?;
        Ok(vec![
            format!("--client-ca-file={clients}"),
            format!("--requestheader-client-ca-file={proxies}"),
            "--requestheader-allowed-names=front-proxy".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            // Cases make pods in namespaces that no controller gave a service account.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ])
    }

    fn known(&self, address: &str, authority: &[u8]) -> Vec<(String, String)> {
        let authority = base64::engine::general_purpose::STANDARD.encode(authority);
        let own = [("self".to_owned(), format!("https://{address}")), ("self-ca".to_owned(), authority)];
        self.known.iter().cloned().chain(own).collect()
    }

    fn clients(&self, address: String, authority: Vec<u8>) -> Arc<Certified> {
        let certificates = self.certificates.clone();
        Arc::new(Certified::new(address, authority, Box::new(move |user| certificates.issue(user))))
    }

    /// Our `kube-apiserver` with more flags, not yet ready.
    pub fn command(&self, folder: &Path, port: u16, flags: &[String]) -> Result<Command> {
        if !folder.join("sa.key").exists() {
            setpoint_peers::write_keys(folder)?;
        }
        let mut command = Command::new(&self.setpoint);
        command
            .arg0("kube-apiserver")
            .current_dir(folder)
            .args(["--bind-address=127.0.0.1", "--cert-dir=.", "--service-cluster-ip-range=10.96.0.0/16"])
            .args(["--service-account-issuer=https://kubernetes.default.svc"])
            .args(["--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key"])
            .arg(format!("--secure-port={port}"))
            .args(self.client_flags(folder)?)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("server.log"))?);
        Ok(command)
    }

    /// Starts our `kube-apiserver` and waits until it is ready.
    pub async fn ours(&self, flags: &[String]) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let port = free_port()?;
        let child =
            Process(self.command(folder.path(), port, flags)?.spawn().context("cannot start setpoint")?);
        let authority = std::fs::read(folder.path().join("ca.crt"))?;
        let server = Server {
            name: "ours",
            known: self.known(&format!("127.0.0.1:{port}"), &authority),
            clients: self.clients(format!("127.0.0.1:{port}"), authority),
            pid: child.0.id(),
            log: folder.path().join("server.log"),
            quiet: "quiet",
            child: Some(child),
            _plane: None,
            _folder: folder,
        };
        server.ready().await?;
        Ok(server)
    }

    /// Starts etcd and the real kube-apiserver.
    pub async fn real(&self) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        let options = Options { apiserver_flags: self.client_flags(folder.path())?, ..Options::default() };
        let plane = ControlPlane::start(folder.path(), &options)?;
        let server = Server {
            name: "real",
            clients: self.clients(plane.address(), std::fs::read(plane.authority())?),
            pid: plane.server_pids()[0],
            log: folder.path().join("kube-apiserver.log"),
            quiet: "quiet",
            known: self.known(&plane.address(), &std::fs::read(plane.authority())?),
            child: None,
            _plane: Some(plane),
            _folder: folder,
        };
        server.ready().await?;
        Ok(server)
    }

    /// Starts `setpoint up` with one node that runs processes.
    pub async fn up(&self, images: &str) -> Result<Server> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("images.toml"), images)?;
        let mut command = Command::new(&self.setpoint);
        command
            .current_dir(folder.path())
            .args(["up", "--port", "0", "--kubeconfig", "k.yaml", "--images", "images.toml"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("server.log"))?);
        let mut child = Process(command.spawn().context("cannot start setpoint")?);
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().context("no output")?).read_line(&mut line)?;
        let address = line.strip_prefix("ready https://").and_then(|rest| rest.split(' ').next());
        let address = address.with_context(|| format!("setpoint said {line:?}"))?.to_owned();
        let (authority, admin) = administrator(&folder.path().join("k.yaml"))?;
        let certificates = self.certificates.clone();
        let issue = move |user: &str| match user {
            "admin" => Ok(admin.clone()),
            other => certificates.issue(other),
        };
        let server = Server {
            name: "ours",
            clients: Arc::new(Certified::new(address, authority, Box::new(issue))),
            pid: child.0.id(),
            log: folder.path().join("server.log"),
            quiet: "admin",
            known: self.known.clone(),
            child: Some(child),
            _plane: None,
            _folder: folder,
        };
        server.ready().await?;
        Ok(server)
    }
}

/// The authority and the administrator's certificate of a kubeconfig.
fn administrator(kubeconfig: &Path) -> Result<(Vec<u8>, Pair)> {
    let config: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let read = |pointer: &str| -> Result<Vec<u8>> {
        let text =
            config.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}"))?;
        Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
    };
    let user = "/users/0/user";
    let pair = Pair {
        certificate: String::from_utf8(read(&format!("{user}/client-certificate-data"))?)?,
        key: String::from_utf8(read(&format!("{user}/client-key-data"))?)?,
    };
    Ok((read("/clusters/0/cluster/certificate-authority-data")?, pair))
}

impl Server {
    pub fn target(&self) -> Target {
        Target::Certified(self.clients.clone())
    }

    /// Sends one request of a user.
    pub async fn ask(&self, user: &str, request: &str, body: Option<Value>) -> Result<Received> {
        let (method, path) = request.split_once(' ').context("no method")?;
        let sent = Sent {
            method: method.to_owned(),
            path: path.to_owned(),
            user: user.to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: body.map(|body| body.to_string()).unwrap_or_default().into(),
        };
        self.clients.send(&sent).await
    }

    /// Waits until it answers, then makes what the quiet user reads.
    async fn ready(&self) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            match self.ask("admin", "GET /readyz", None).await {
                Ok(answer) if answer.status == 200 => break,
                other if Instant::now() > deadline => {
                    let last = other.map(|answer| answer.status);
                    bail!("{} is not ready: {last:?}, {}", self.name, self.last_lines())
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        let name = json!({"name": "quiet", "namespace": "default"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name});
        let made = self.ask("admin", "POST /api/v1/namespaces/default/configmaps", Some(map)).await?;
        ensure!(made.status == 201, "{}: {}", self.name, String::from_utf8_lossy(&made.body));
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let version = "rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
        let role = json!({"apiVersion": version, "kind": "Role", "metadata": name, "rules": rules});
        let subject = json!({"kind": "User", "name": "quiet", "apiGroup": "rbac.authorization.k8s.io"});
        let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": name,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "quiet"},
            "subjects": [subject]});
        self.ask("admin", &format!("POST {rbac}/roles"), Some(role)).await?;
        self.ask("admin", &format!("POST {rbac}/rolebindings"), Some(binding)).await?;
        Ok(())
    }

    /// Whether its process still runs. A process of the control plane ends with the run and is not asked.
    pub fn runs(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.0.try_wait()?.is_none()),
            None => Ok(true),
        }
    }

    /// Resident memory in MiB.
    pub fn memory_mib(&self) -> u64 {
        memory_mib(self.pid)
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

/// Resident memory of a process in MiB; 0 if it is gone.
pub fn memory_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}
