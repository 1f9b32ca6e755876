//! kube-controller-manager as a child, on any API server.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::{Process, program};

/// A running kube-controller-manager; it ends with this handle.
#[derive(Debug)]
pub struct ControllerManager(Process);

impl ControllerManager {
    /// Starts these controllers (`*` for all) on the server of that kubeconfig. `keys` is a folder with `ca.crt`,
    /// which is put into every namespace, and `sa.key`; its log goes to `folder`.
    pub fn start(
        folder: &Path,
        kubeconfig: &Path,
        controllers: &[String],
        keys: &Path,
    ) -> Result<ControllerManager> {
        let mut command = Command::new(program("kube-controller-manager")?);
        command.arg("--kubeconfig").arg(kubeconfig).args(["--secure-port", "0", "--leader-elect=false"]);
        command.args(["--controllers", &controllers.join(",")]);
        // Without this, its limit of 20 requests per second would be measured, not its work.
        command.args(["--kube-api-qps", "10000", "--kube-api-burst", "10000"]);
        command.arg("--root-ca-file").arg(keys.join("ca.crt"));
        command.arg("--service-account-private-key-file").arg(keys.join("sa.key"));
        Ok(ControllerManager(Process::start(&mut command, folder, "kube-controller-manager")?))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.0.id()
    }
}
