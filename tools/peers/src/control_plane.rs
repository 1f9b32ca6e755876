//! etcd and kube-apiserver as children, with kube-controller-manager when it is asked for.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::Engine;

use crate::{ControllerManager, Process, certificates, program};

/// Time that a control plane may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// Options of the control plane.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether etcd syncs its log to the disk before it answers.
    pub fsync: bool,
    /// Which controllers kube-controller-manager runs (`*` for all); without it there is no controller manager.
    pub controller_manager: Option<Vec<String>>,
    /// kube-apiserver 1.32, the oldest that the runtime promises to work with, instead of the one whose API is served.
    pub oldest: bool,
    /// More flags for kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// A running control plane; its processes end with this handle.
///
/// It authorizes by RBAC and knows two users: `admin` of `system:masters` and `alice` of `dev`, whose bearer tokens
/// are `token-of-admin` and `token-of-alice`.
#[derive(Debug)]
pub struct ControlPlane {
    controller_manager: Option<ControllerManager>,
    apiserver: Process,
    etcd: Process,
    port: u16,
    folder: PathBuf,
}

impl ControlPlane {
    /// Starts it with its files in this folder and waits until it is ready.
    pub fn start(folder: &Path, options: &Options) -> Result<ControlPlane> {
        let mut plane = ControlPlane::spawn(folder, options)?;
        plane.wait_until_ready()?;
        if let Some(controllers) = &options.controller_manager {
            let manager = ControllerManager::start(folder, &plane.kubeconfig(), controllers, folder)?;
            plane.controller_manager = Some(manager);
        }
        Ok(plane)
    }

    /// Starts etcd and kube-apiserver and does not wait: for who measures the start, or asks for itself.
    pub fn spawn(folder: &Path, options: &Options) -> Result<ControlPlane> {
        let folder = folder.canonicalize().with_context(|| format!("{}", folder.display()))?;
        let authority = certificates::write(&folder)?;
        let [client, member, port] = free_ports()?;
        let etcd = etcd(&folder, client, member, options)?;
        let apiserver = apiserver(&folder, client, port, options)?;
        let plane = ControlPlane { controller_manager: None, apiserver, etcd, port, folder };
        std::fs::write(plane.kubeconfig(), plane.kubeconfig_of("admin", &authority))?;
        Ok(plane)
    }

    /// A kubeconfig file for `admin`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The same as host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The authority that signed its certificate, as PEM.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The authority that signed the certificate which kube-apiserver shows to kubelets.
    pub fn kubelet_client_ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// kube-apiserver and etcd.
    pub fn server_pids(&self) -> [u32; 2] {
        [self.apiserver.0.id(), self.etcd.0.id()]
    }

    /// kube-controller-manager, where it runs.
    pub fn controller_manager_pid(&self) -> Option<u32> {
        self.controller_manager.as_ref().map(ControllerManager::pid)
    }

    fn kubeconfig_of(&self, user: &str, authority: &str) -> String {
        let authority = base64::engine::general_purpose::STANDARD.encode(authority);
        let url = self.url();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
             clusters:\n- name: real\n  cluster: {{server: \"{url}\", certificate-authority-data: {authority}}}\n\
             users:\n- name: {user}\n  user: {{token: token-of-{user}}}\n\
             contexts:\n- name: real\n  context: {{cluster: real, user: {user}}}\n"
        )
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let kubectl = program("kubectl")?;
        let deadline = Instant::now() + READY_WITHIN;
        while Instant::now() < deadline {
            let mut ask = Command::new(&kubectl);
            ask.arg("--kubeconfig").arg(self.kubeconfig()).args(["get", "--raw", "/readyz"]);
            if ask.stderr(Stdio::null()).output()?.status.success() {
                return Ok(());
            }
            if let Some(status) = self.apiserver.0.try_wait()? {
                bail!("kube-apiserver ended with {status}: {}", self.last_lines());
            }
        }
        bail!("kube-apiserver is not ready after {} s: {}", READY_WITHIN.as_secs(), self.last_lines())
    }

    fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join("kube-apiserver.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

/// All sockets are held until the last port is chosen: a released port may be chosen again.
fn free_ports() -> Result<[u16; 3]> {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let [a, b, c] = [bind()?, bind()?, bind()?];
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

fn etcd(folder: &Path, client: u16, member: u16, options: &Options) -> Result<Process> {
    let at = |port: u16| format!("http://127.0.0.1:{port}");
    let mut etcd = Command::new(program("etcd")?);
    etcd.arg("--data-dir").arg(folder.join("etcd"));
    etcd.args(["--listen-client-urls", &at(client), "--advertise-client-urls", &at(client)]);
    etcd.args(["--listen-peer-urls", &at(member), "--initial-advertise-peer-urls", &at(member)]);
    etcd.args(["--initial-cluster", &format!("default={}", at(member)), "--log-level", "error"]);
    if !options.fsync {
        etcd.arg("--unsafe-no-fsync");
    }
    Process::start(&mut etcd, folder, "etcd")
}

fn apiserver(folder: &Path, etcd: u16, port: u16, options: &Options) -> Result<Process> {
    let tokens = "token-of-admin,admin,admin,system:masters\ntoken-of-alice,alice,alice,dev\n";
    std::fs::write(folder.join("tokens.csv"), tokens)?;
    let name = if options.oldest { "kube-apiserver-1.32" } else { "kube-apiserver" };
    let mut apiserver = Command::new(program(name)?);
    apiserver
        .current_dir(folder)
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd}"), "--secure-port", &port.to_string()])
        .args(["--bind-address", "127.0.0.1", "--cert-dir", "certs"])
        .args(["--tls-cert-file", "apiserver.crt", "--tls-private-key-file", "apiserver.key"])
        .args(["--client-ca-file", "ca.crt"])
        .args([
            "--kubelet-client-certificate",
            "kubelet-client.crt",
            "--kubelet-client-key",
            "kubelet-client.key",
        ])
        .args(["--kubelet-preferred-address-types", "InternalIP"])
        .args(["--service-account-issuer", "https://kubernetes.default.svc"])
        .args(["--service-account-key-file", "sa.pub", "--service-account-signing-key-file", "sa.key"])
        .args(["--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC"])
        .args(["--token-auth-file", "tokens.csv", "--allow-privileged"])
        .args(&options.apiserver_flags);
    Process::start(&mut apiserver, folder, "kube-apiserver")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_files_of_a_control_plane_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let authority = crate::certificates::write(folder.path()).unwrap();
        assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"));
        for file in
            ["ca.crt", "apiserver.crt", "apiserver.key", "kubelet-client.crt", "kubelet-client.key", "sa.pub"]
        {
            assert!(folder.path().join(file).is_file(), "{file}");
        }
    }
}
