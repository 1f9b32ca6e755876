//! The packages of `cargo xtask dist`, installed into empty environments and used for a small test each.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Missing, Setup};
use crate::packages::{self, Packages};
use crate::run;

const PYTEST: &str = include_str!("test_install.py");
const OPERATOR: &str = include_str!("things_operator.py");
const NODE: &str = include_str!("install.test.mjs");

pub fn run(setup: &Setup) -> Result<()> {
    for tool in packages::TOOLS.iter().chain(&["node", "go"]) {
        run::found(tool).ok_or_else(|| Missing(format!("no {tool} on the path")))?;
    }
    let folder = super::folder::new()?;
    let packages = packages::make(&setup.setpoint, &folder.path().join("dist"))?;
    python(&packages, &folder.path().join("python")).context("the wheel")?;
    npm(&packages, &folder.path().join("npm")).context("the npm package")?;
    go(&packages, &folder.path().join("go")).context("the Go module")
}

/// A program without the settings of this process that could lead it to another Setpoint.
fn clean(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env_remove("SETPOINT_BINARY")
        .env_remove("KUBECONFIG")
        .env_remove("PYTHONPATH");
    command
}

/// pytest with the fixture, the official client, and an operator on kopf.
fn python(packages: &Packages, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    run::check(clean("python3", folder).args(["-m", "venv", "venv"]))?;
    let program = |name: &str| folder.join("venv/bin").join(name);
    let words = ["install", "--quiet", "--disable-pip-version-check", "pytest", "kopf", "kubernetes"];
    run::check(clean(program("pip"), folder).args(words).arg(&packages.wheel))?;
    fs::write(folder.join("test_install.py"), PYTEST)?;
    fs::write(folder.join("things_operator.py"), OPERATOR)?;
    run::check(clean(program("pytest"), folder).args(["-q", "test_install.py"]))
}

/// node's own test runner with the official client.
fn npm(packages: &Packages, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    fs::write(folder.join("package.json"), r#"{"private": true}"#)?;
    let words = ["install", "--silent", "--no-audit", "--no-fund", "@kubernetes/client-node@1"];
    run::check(clean("npm", folder).args(words).arg(&packages.npm))?;
    fs::write(folder.join("install.test.mjs"), NODE)?;
    run::check(clean("node", folder).args(["--test", "install.test.mjs"]))
}

/// The module's own tests, from a copy outside the repository.
fn go(packages: &Packages, folder: &Path) -> Result<()> {
    fs::create_dir(folder)?;
    let source = run::root().join("packages/go/setpointtest");
    for entry in fs::read_dir(&source)? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))?;
    }
    let mut command = clean("go", folder);
    run::check(command.args(["test", "-count=1", "./..."]).env("SETPOINT_BINARY", &packages.binary))
}
