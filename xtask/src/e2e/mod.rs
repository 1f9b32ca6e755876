//! Tests that need more than Rust: kubectl, the Go peers, a browser. `cargo xtask e2e [PART…]`.
//!
//! A part with a missing program prints `skipped: REASON`. With `CI` set that is a failure.

mod cel_corpus;
mod controller_runtime;
mod demo;
mod envtest;
mod informers;
mod kubectl;
mod kubelet;
mod leader;
mod manifests;
mod operators;
mod webhooks;
mod prove;
mod scaffold;
mod install;
pub mod pods;
mod restart;
mod rollout;
pub mod rollout_kill;
pub mod controllers;
pub mod runtime;
mod sample_controller;
mod objects;
pub mod steady;
mod operator;
mod tour;
mod attacks;
mod attempt;
mod browser;
pub mod seeded;
mod typed;
pub mod cluster;
mod folder;
pub mod proxy;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::attempt::Outcome;
use crate::run;

/// One part: its name and its function.
struct Part {
    name: &'static str,
    /// Whether it decides that a user is broken: then the gate runs it, and otherwise `--all` does.
    gate: bool,
    run: fn(&Setup) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "kubectl", gate: true, run: kubectl::current },
    Part { name: "kubectl-1.32", gate: false, run: kubectl::oldest },
    Part { name: "kubectl-compare", gate: true, run: kubectl::compare::current },
    Part { name: "kubectl-1.32-compare", gate: false, run: kubectl::compare::oldest },
    Part { name: "controllers", gate: true, run: controllers::run },
    Part { name: "daemons", gate: false, run: controllers::daemons },
    Part { name: "controllers-leader", gate: false, run: controllers::election::run },
    Part { name: "rollout", gate: false, run: rollout::run },
    Part { name: "rollout-kill", gate: false, run: rollout_kill::slice },
    Part { name: "restart", gate: true, run: restart::run },
    Part { name: "client-go-typed", gate: true, run: typed::run },
    Part { name: "informers", gate: false, run: informers::run },
    Part { name: "envtest", gate: true, run: envtest::run },
    Part { name: "pods", gate: true, run: pods::run },
    Part { name: "kubelet", gate: false, run: kubelet::run },
    Part { name: "runtime", gate: true, run: runtime::run },
    Part { name: "leader", gate: false, run: leader::run },
    Part { name: "operators", gate: true, run: operators::run },
    Part { name: "prove", gate: false, run: prove::run },
    Part { name: "scaffold", gate: false, run: scaffold::run },
    Part { name: "install", gate: false, run: install::run },
    Part { name: "sample-controller", gate: false, run: sample_controller::run },
    Part { name: "manifests", gate: true, run: manifests::run },
    Part { name: "cel-corpus", gate: false, run: cel_corpus::run },
    Part { name: "webhooks", gate: false, run: webhooks::run },
    Part { name: "steady", gate: false, run: steady::run },
    Part { name: "controller-runtime", gate: true, run: controller_runtime::short },
    Part { name: "demo", gate: true, run: demo::run },
    Part { name: "tour", gate: true, run: tour::run },
    Part { name: "browser", gate: true, run: browser::run },
    Part { name: "attacks", gate: false, run: attacks::run },
];

/// State shared by the parts.
pub struct Setup {
    /// Our binary.
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

pub fn run(words: &[String]) -> Result<()> {
    if let [name, own @ ..] = words
        && name == "attacks"
        && !own.is_empty()
    {
        return attacks::chosen(own);
    }
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| !["--all", "--debug"].contains(&flag.as_str())) {
        bail!("`{unknown}` is unexpected; there are --all and --debug");
    }
    if let Some(unknown) = names.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part `{unknown}`; there are {}", known.join(", "));
    }
    let all = flags.iter().any(|flag| *flag == "--all");
    let of_the_gate = names.is_empty() && !all;
    let debug = of_the_gate || flags.iter().any(|flag| *flag == "--debug");
    let setpoint = if debug { build_as_tests()? } else { build()? };
    let wanted = |part: &&Part| match names.is_empty() {
        true => all || part.gate,
        false => names.iter().any(|name| *name == part.name),
    };
    play(&setpoint, PARTS.iter().filter(wanted))
}

/// Makes one run of a part and gives the reason if it does not pass.
pub fn once(name: &str, setpoint: &Path, folder: &Path) -> Result<std::result::Result<(), String>> {
    let ended = attempt::process(name, setpoint, folder)?;
    Ok(ended.map_err(|ended| match ended {
        attempt::Ended::Missing(reason) | attempt::Ended::Failed(reason) => reason,
    }))
}

/// The names of the gate's parts.
pub fn gate() -> impl Iterator<Item = &'static str> {
    PARTS.iter().filter(|part| part.gate).map(|part| part.name)
}

fn play<'a>(setpoint: &Path, parts: impl Iterator<Item = &'a Part>) -> Result<()> {
    let required = std::env::var_os("CI").is_some();
    let kept = tempfile::Builder::new().prefix("setpoint-e2e-").disable_cleanup(true).tempdir()?;
    let (mut passed, mut flaky, mut failed, mut skipped) = (0, Vec::new(), Vec::new(), 0);
    for Part { name, .. } in parts {
        let folder = kept.path().join(name);
        match attempt::part(&folder, &mut |folder| attempt::process(name, setpoint, folder))? {
            Outcome::Passed => passed += 1,
            Outcome::Flaky(failure) => flaky.push((name, failure)),
            Outcome::Failed(failure) => failed.push((name, failure)),
            Outcome::Missing(reason) if required => {
                failed.push((name, attempt::Failure { reason, folder }));
            }
            Outcome::Missing(reason) => {
                skipped += 1;
                println!("e2e {name}: skipped: {reason}");
            }
        }
    }
    for (name, failure) in &failed {
        println!("failed: {name}: {} ({})", failure.reason, failure.folder.display());
    }
    for (name, failure) in &flaky {
        println!("flaky: {name}: {} ({})", failure.reason, failure.folder.display());
    }
    println!("{passed} passed, {} flaky, {} failed, {skipped} skipped", flaky.len(), failed.len());
    if flaky.is_empty() && failed.is_empty() {
        std::fs::remove_dir_all(kept.path())?;
    }
    if failed.is_empty() { Ok(()) } else { bail!("{} parts failed", failed.len()) }
}

/// Not a command of people: one run of one part. The exit code says whether a need of it is missing.
pub fn part(words: &[String]) -> Result<u8> {
    let [name, setpoint] = words else { bail!("usage: e2e-part NAME SETPOINT") };
    let part = PARTS.iter().find(|part| part.name == name).context("no such part")?;
    match (part.run)(&Setup { setpoint: PathBuf::from(setpoint) }) {
        Err(error) if error.is::<Missing>() => {
            println!("{error}");
            Ok(attempt::MISSING)
        }
        ended => ended.map(|()| 0),
    }
}

/// Every suite of controller-runtime that needs a server: minutes, so not for every change.
pub fn all_suites() -> Result<()> {
    controller_runtime::all(&Setup { setpoint: build()? })
}

/// Builds our binary in release mode, as users run it.
pub fn build() -> Result<PathBuf> {
    run::check(run::cargo().args(["build", "--release", "--quiet", "--package", "setpoint-cli"]))?;
    program("release/setpoint")
}

/// Our binary as `cargo test --workspace` builds it, so that after the tests nothing is built.
pub fn build_as_tests() -> Result<PathBuf> {
    operator::build()?;
    program("debug/setpoint")
}

fn program(name: &str) -> Result<PathBuf> {
    let program = run::target_folder().join(name);
    program.canonicalize().with_context(|| format!("{} was not built", program.display()))
}
