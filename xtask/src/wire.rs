//! `cargo xtask wire record|verify|replay|fuzz [FLAGS]`: hands over to `tools/wire`, with the peers where they are
//! needed.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run;

pub fn run(words: &[String]) -> Result<()> {
    let Some(name) = words.first() else {
        bail!("usage: cargo xtask wire record|verify|replay|fuzz [--only FILE] [--seconds N] [--seed S]")
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(run::root()).args(["run", "--quiet", "--package", "setpoint-wire", "--"]).args(words);
    if name != "replay" {
        setpoint_peers::program("etcd")?;
        setpoint_peers::program("kube-apiserver")?;
        command.arg("--peers").arg(setpoint_peers::folder()?);
    }
    run::check(&mut command)
}
