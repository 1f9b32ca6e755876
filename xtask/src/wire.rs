//! `cargo xtask wire record|verify|replay|fuzz|policy|plugins [FLAGS]`: hands over to `tools/wire`.

use anyhow::{Result, bail};

use crate::{flags, run};

pub fn run(words: &[String]) -> Result<()> {
    match words.split_first() {
        Some((name, rest)) if matches!(name.as_str(), "record" | "verify" | "replay") => {
            flags::check(rest, &["--only="])?;
        }
        Some((name, rest)) if name == "fuzz" => {
            flags::check(rest, &["--seconds=", "--seed=", "--keep-going"])?;
        }
        Some((name, rest)) if matches!(name.as_str(), "policy" | "plugins") => flags::check(rest, &[])?,
        Some((other, _)) => {
            bail!("no command `{other}`; there are record, verify, replay, fuzz, policy and plugins")
        }
        None => bail!("usage: cargo xtask wire record|verify|replay|fuzz|policy|plugins [FLAGS]"),
    }
    run::check(run::cargo().args(["run", "--quiet", "--package", "setpoint-wire", "--"]).args(words))
}
