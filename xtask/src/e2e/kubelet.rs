//! Our nodes on the real kube-apiserver: it reaches them over TLS as it reaches a kubelet, and no other client does.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::cluster::Kubectl;
use super::{Setup, pods};

/// `setpoint controllers`; killed when dropped.
struct Controllers(Child);

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn run(setup: &Setup) -> Result<()> {
    let kubectls = [setup.peer("kubectl")?, setup.peer("kubectl-1.32")?];
    let folder = super::folder::new()?;
    let plane = setup.control_plane(folder.path(), &setpoint_peers::Options::default())?;
    std::fs::copy(plane.kubeconfig(), folder.path().join("k.yaml"))?;
    pods::write_images(folder.path(), &setup.setpoint)?;
    let log = std::fs::File::create(folder.path().join("controllers.log"))?;
    let controllers = Command::new(&setup.setpoint)
        .current_dir(folder.path())
        .args(["controllers", "--kubeconfig", "k.yaml", "--no-leader-election", "--images", "images.toml"])
        .arg("--client-ca-file")
        .arg(plane.kubelet_client_ca())
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .context("cannot start setpoint")?;
    let _controllers = Controllers(controllers);
    let kubectl = Kubectl::new(&kubectls[0], folder.path());
    pods::begin(&kubectl)?;
    for program in &kubectls {
        pods::session(&Kubectl::new(program, folder.path()))
            .with_context(|| program.display().to_string())?;
    }
    pods::over_spdy(&Kubectl::new(&kubectls[0], folder.path()).over_spdy())?;
    strangers_are_refused(&kubectl, folder.path())
}

/// Without a certificate, or with one of another authority: 401. With the API server's own: 200.
fn strangers_are_refused(kubectl: &Kubectl, folder: &Path) -> Result<()> {
    let port = kubectl.ok(&[
        "get",
        "node",
        "setpoint-0",
        "-o",
        "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}",
    ])?;
    let openssl = Command::new("openssl")
        .current_dir(folder)
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "stranger.key",
            "-out",
            "stranger.crt",
        ])
        .args(["-days", "1", "-subj", "/O=system:masters/CN=kube-apiserver-kubelet-client"])
        .stderr(Stdio::null())
        .status()?;
    ensure!(openssl.success(), "openssl ended with {openssl}");
    let mine = ["--cert", "kubelet-client.crt", "--key", "kubelet-client.key"];
    let stranger = ["--cert", "stranger.crt", "--key", "stranger.key"];
    for (flags, wanted) in [(&[][..], "401"), (&stranger[..], "401"), (&mine[..], "200")] {
        for path in ["/pods", "/healthz", "/containerLogs/default/sh/main"] {
            let output = Command::new("curl")
                .current_dir(folder)
                .args(["-sk", "-o", "answer", "-w", "%{http_code}"])
                .args(flags)
                .arg(format!("https://127.0.0.1:{port}{path}"))
                .output()
                .context("curl")?;
            let code = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(code == wanted, "{path} with {flags:?}: {code}, not {wanted}");
        }
    }
    Ok(())
}
