//! The runtime's scenarios (`crates/cluster/tests/it/runtime`), unchanged, on `setpoint up` and on the real
//! kube-apiserver.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Setup;
use super::cluster::Cluster;
use crate::run;

/// The variable that passes a kubeconfig's path to the scenarios.
const KUBECONFIG: &str = "SETPOINT_TEST_KUBECONFIG";

pub fn run(setup: &Setup) -> Result<()> {
    let tests = build()?;
    let ours = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    play(&tests, &ours.folder.path().join("k.yaml")).context("on setpoint")?;
    drop(ours);
    let folder = super::folder::new()?;
    let real = setup.control_plane(folder.path(), &setpoint_peers::Options::default())?;
    play(&tests, &real.kubeconfig()).context("on kube-apiserver")
}

/// The same on the oldest kube-apiserver that the runtime promises to work with.
pub fn oldest() -> Result<()> {
    let tests = build()?;
    let folder = super::folder::new()?;
    let options = setpoint_peers::Options { oldest: true, ..setpoint_peers::Options::default() };
    let real = setpoint_peers::ControlPlane::start(folder.path(), &options)?;
    play(&tests, &real.kubeconfig()).context("on kube-apiserver 1.32")
}

/// The test program, built as `cargo test --workspace` builds it, so that nothing is built twice.
fn build() -> Result<PathBuf> {
    let mut command = run::cargo();
    command.args(["test", "--workspace", "--test", "it", "--no-run", "--quiet", "--message-format=json"]);
    let messages = run::read(&mut command)?;
    let ours = |message: &Value| {
        let manifest = message["manifest_path"].as_str().unwrap_or_default();
        message["target"]["name"] == "it" && manifest.ends_with("crates/cluster/Cargo.toml")
    };
    let found = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find(ours);
    let program = found.and_then(|message| message["executable"].as_str().map(PathBuf::from));
    program.context("cargo built no test program of crates/cluster")
}

fn play(tests: &Path, kubeconfig: &Path) -> Result<()> {
    let mut command = Command::new(tests);
    command.current_dir(run::root().join("crates/cluster")).arg("runtime::").env(KUBECONFIG, kubeconfig);
    let said = run::read(&mut command)?;
    let summary = said.lines().find(|line| line.starts_with("test result:")).unwrap_or_default();
    ensure!(!summary.contains(" 0 passed"), "no scenario ran: {summary}");
    println!("runtime: {summary}");
    Ok(())
}
