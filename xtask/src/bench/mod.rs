//! `cargo xtask bench NAME [FLAGS]`: builds both sides, then hands over to `tools/bench`.

mod blackbox;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{e2e, flags, run};

pub fn run(words: &[String]) -> Result<()> {
    let Some((name, words)) = words.split_first() else {
        bail!("usage: cargo xtask bench apiserver|controllers|growth|prove|runtime [FLAGS]")
    };
    match name.as_str() {
        "apiserver" => flags::check(words, &["--objects=", "--pods=", "--watchers=", "--alone"])?,
        "controllers" => flags::check(words, &["--only=", "--alone"])?,
        "growth" => flags::check(words, &[])?,
        "prove" => {
            return match words.split_first() {
                Some((first, words)) if first == "--blackbox" => blackbox::run(words),
                _ => prove("bench", words),
            };
        }
        "runtime" => flags::check(words, &["--only=", "--pods="])?,
        other => bail!("no bench `{other}`; there are apiserver, controllers, growth, prove and runtime"),
    }
    let mut command = run::cargo();
    command.current_dir(run::root()).args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "setpoint-bench",
        "--",
        name,
    ]);
    match name.as_str() {
        "growth" => &mut command,
        "runtime" => command.arg("--programs").arg(runtime_programs()?),
        _ => {
            setpoint_peers::build_all()?;
            command.arg("--setpoint").arg(e2e::build()?)
        }
    };
    run::check(command.args(words))
}

/// Measures the prover on the seeded operator, or proves the sound one for long. The word is a number of seeds or runs.
pub fn prove(what: &str, words: &[String]) -> Result<()> {
    let mut command = run::cargo();
    command.current_dir(run::root());
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "seeded-operator",
        "--bin",
        "score",
        "--",
        what,
    ]);
    run::check(command.args(words.iter().take(1)))
}

/// Builds our side and the peers of the runtime benchmark, and returns the folder with all of them.
fn runtime_programs() -> Result<PathBuf> {
    let root = run::root();
    let folder = root.join("target/runtime-peers");
    std::fs::create_dir_all(&folder)?;
    for module in ["client-go", "controller-runtime"] {
        if run::found("go").is_none() {
            bail!("{module} has to be built and go is not on the search path");
        }
        let mut build = Command::new("go");
        build.current_dir(root.join("peers").join(module)).env("CGO_ENABLED", "0");
        run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(folder.join(module)).arg("."))?;
    }
    let peer = root.join("peers/kube-runtime");
    let target = root.join("target/kube-runtime");
    run::check(run::cargo().current_dir(&peer).env("CARGO_TARGET_DIR", &target).args([
        "build",
        "--release",
        "--locked",
    ]))?;
    let mut own = run::cargo();
    own.current_dir(&root).args(["build", "--release", "--package", "setpoint-bench-client"]);
    run::check(like_the_peer(&mut own))?;
    copy(&target.join("release/kube-runtime-peer"), &folder.join("kube-runtime"))?;
    copy(&root.join("target/release/setpoint-bench-client"), &folder.join("setpoint"))?;
    Ok(folder)
}

/// Packages of the compared program that the workspace builds for size.
const BUILT_FOR_SIZE: [&str; 3] = ["k8s-openapi", "pest", "serde-saphyr"];

/// Uses the settings of the peer's Cargo.toml, because compared programs must be built alike.
fn like_the_peer(command: &mut Command) -> &mut Command {
    for package in BUILT_FOR_SIZE {
        command.arg("--config").arg(format!("profile.release.package.{package}.opt-level=3"));
    }
    command.env("CARGO_PROFILE_RELEASE_LTO", "thin").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "4")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
