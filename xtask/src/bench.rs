//! `cargo xtask bench NAME [FLAGS]`: builds both sides, then hands over to `tools/bench`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{e2e, run};

pub fn run(words: &[String]) -> Result<()> {
    let Some((name, flags)) = words.split_first() else {
        bail!("usage: cargo xtask bench apiserver|controllers [FLAGS]")
    };
    let setpoint = e2e::build()?;
    setpoint_peers::build_all()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(run::root())
        .args(["run", "--release", "--quiet", "--package", "setpoint-bench", "--", name])
        .arg("--setpoint")
        .arg(setpoint)
        .args(flags);
    run::check(&mut command)
}
