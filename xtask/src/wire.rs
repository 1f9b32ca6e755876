//! `cargo xtask wire record|verify|replay|fuzz [FLAGS]`: hands over to `tools/wire`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::run;

pub fn run(words: &[String]) -> Result<()> {
    if words.is_empty() {
        bail!("usage: cargo xtask wire record|verify|replay|fuzz [--only FILE] [--seconds N] [--seed S]")
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(run::root()).args(["run", "--quiet", "--package", "setpoint-wire", "--"]).args(words);
    run::check(&mut command)
}
