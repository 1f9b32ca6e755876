//! The real thing, for comparison: programs of Kubernetes built from their Go modules ([`program`]), and a control
//! plane made of them on loopback ports ([`ControlPlane`]).

// Children of a command line: it reads the environment and waits for them in real time.
#![allow(clippy::disallowed_methods)]

mod control_plane;
mod controller_manager;
mod certificates;
mod programs;

pub use certificates::write as write_keys;
pub use control_plane::{ControlPlane, Options};
pub use controller_manager::ControllerManager;
pub use programs::{KUBERNETES_VERSION, build_all, folder, program};

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A process of ours that must not outlive its handle.
#[derive(Debug)]
struct Process(Child);

impl Process {
    /// Starts a program whose output goes to a log in this folder.
    fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Process> {
        let log = File::create(folder.join(format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Process(command.spawn().with_context(|| format!("cannot start {name}"))?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
