//! Tests that need more than Rust: kubectl, the Go peers, a browser. `cargo xtask e2e [PART…]`.
//!
//! A part with a missing program prints `skipped: REASON`. With `CI` set that is a failure.

mod controller_runtime;
mod demo;
mod envtest;
mod informers;
mod kubectl;
mod kubelet;
mod leader;
mod manifests;
mod operators;
pub mod pods;
mod restart;
mod rollout;
pub mod controllers;
pub mod runtime;
mod sample_controller;
mod objects;
pub mod steady;
mod operator;
mod tour;
mod browser;
mod typed;
pub mod cluster;
pub mod proxy;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::run;

/// One part: its name and its function.
struct Part {
    name: &'static str,
    run: fn(&Setup) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "kubectl", run: kubectl::current },
    Part { name: "kubectl-1.32", run: kubectl::oldest },
    Part { name: "kubectl-compare", run: kubectl::compare::current },
    Part { name: "kubectl-1.32-compare", run: kubectl::compare::oldest },
    Part { name: "controllers", run: controllers::run },
    Part { name: "daemons", run: controllers::daemons },
    Part { name: "controllers-leader", run: controllers::election::run },
    Part { name: "rollout", run: rollout::run },
    Part { name: "rollout-kill", run: crate::rollout::slice },
    Part { name: "restart", run: restart::run },
    Part { name: "client-go-typed", run: typed::run },
    Part { name: "informers", run: informers::run },
    Part { name: "envtest", run: envtest::run },
    Part { name: "pods", run: pods::run },
    Part { name: "kubelet", run: kubelet::run },
    Part { name: "runtime", run: runtime::run },
    Part { name: "leader", run: leader::run },
    Part { name: "operators", run: operators::run },
    Part { name: "sample-controller", run: sample_controller::run },
    Part { name: "manifests", run: manifests::run },
    Part { name: "steady", run: steady::run },
    Part { name: "controller-runtime", run: controller_runtime::short },
    Part { name: "demo", run: demo::run },
    Part { name: "tour", run: tour::run },
    Part { name: "browser", run: browser::run },
];

/// State shared by the parts.
pub struct Setup {
    /// Our binary, in release.
    pub setpoint: PathBuf,
}

impl Setup {
    /// Returns a peer's program, and builds it if it is missing. The error names the missing tools.
    pub fn peer(&self, name: &str) -> Result<PathBuf> {
        setpoint_peers::program(name).map_err(|error| Missing(format!("{error:#}")).into())
    }

    /// A real control plane with its files in this folder.
    pub fn control_plane(
        &self,
        folder: &Path,
        options: &setpoint_peers::Options,
    ) -> Result<setpoint_peers::ControlPlane> {
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
            self.peer(name)?;
        }
        setpoint_peers::ControlPlane::start(folder, options)
    }
}

/// A need that this machine does not have.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part `{unknown}`; there are {}", known.join(", "));
    }
    let setup = Setup { setpoint: build()? };
    let required = std::env::var_os("CI").is_some();
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for part in PARTS.iter().filter(|part| names.is_empty() || names.iter().any(|name| name == part.name)) {
        let began = Instant::now();
        match (part.run)(&setup) {
            Ok(()) => {
                passed += 1;
                println!("e2e {}: ok ({:.1} s)", part.name, began.elapsed().as_secs_f64());
            }
            Err(error) if error.is::<Missing>() && !required => {
                skipped += 1;
                println!("e2e {}: skipped: {error}", part.name);
            }
            Err(error) => {
                failed += 1;
                println!("e2e {}: FAILED: {error:#}", part.name);
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 { bail!("{failed} parts failed") } else { Ok(()) }
}

/// Every suite of controller-runtime that needs a server: minutes, so not for every change.
pub fn all_suites() -> Result<()> {
    controller_runtime::all(&Setup { setpoint: build()? })
}

/// Builds our binary in release mode, as users run it.
pub fn build() -> Result<PathBuf> {
    run::check(run::cargo().args(["build", "--release", "--quiet", "--package", "setpoint-cli"]))?;
    let program = run::target_folder().join("release/setpoint");
    program.canonicalize().with_context(|| format!("{} was not built", program.display()))
}
