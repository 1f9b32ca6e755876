//! `cargo xtask wire record|verify|replay|fuzz [FLAGS]`: hands over to `tools/wire`.

use anyhow::{Result, bail};

use crate::run;

pub fn run(words: &[String]) -> Result<()> {
    if words.is_empty() {
        bail!("usage: cargo xtask wire record|verify|replay|fuzz [--only FILE] [--seconds N] [--seed S]")
    }
    run::check(run::cargo().args(["run", "--quiet", "--package", "setpoint-wire", "--"]).args(words))
}
