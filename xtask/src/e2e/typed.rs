//! client-go's typed clients and default informers, in protobuf, against ours.

use std::process::Command;

use anyhow::{Result, ensure};

use super::cluster::Cluster;
use super::{Missing, Setup};
use crate::run;

pub fn run(setup: &Setup) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let folder = super::folder::new()?;
    let program = folder.path().join("client-go-typed");
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/client-go-typed")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("."))?;
    let cluster = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    let said = run::read(Command::new(&program).env("KUBECONFIG", cluster.folder.path().join("k.yaml")))?;
    ensure!(said.starts_with("ok: "), "client-go-typed said {said:?}");
    println!("client-go-typed: {}", said.trim());
    Ok(())
}
