//! A Go program that uses envtest runs on `setpoint assets`.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Missing, Setup};
use crate::run;

pub fn run(setup: &Setup) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let folder = super::folder::new()?;
    let (assets, program) = (folder.path().join("assets"), folder.path().join("envtest"));
    run::read(Command::new(&setup.setpoint).arg("assets").arg(&assets))?;
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/envtest")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("."))?;
    let said = run::read(Command::new(&program).env("KUBEBUILDER_ASSETS", &assets))?;
    ensure!(said.starts_with("started in "), "envtest said {said:?}");
    println!("envtest: {}", said.trim());
    Ok(())
}
