//! The attack catalogue (`testdata/attacks`), on our server and on the real one. `tools/attacks` plays it.

use std::path::Path;

use anyhow::Result;

use super::Setup;
use crate::{flags, run};

/// The whole catalogue.
pub fn run(setup: &Setup) -> Result<()> {
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        setup.peer(name)?;
    }
    play(&setup.setpoint, &[])
}

/// `cargo xtask e2e attacks` with words of its own.
pub fn chosen(words: &[String]) -> Result<()> {
    flags::check(words, &["--only=", "--alone", "--list", "--debug"])?;
    let debug = words.iter().any(|word| word == "--debug");
    let setpoint = if debug { super::build_as_tests()? } else { super::build()? };
    let words: Vec<String> = words.iter().filter(|word| *word != "--debug").cloned().collect();
    play(&setpoint, &words)
}

fn play(setpoint: &Path, words: &[String]) -> Result<()> {
    let mut attacks = run::cargo();
    attacks.current_dir(run::root()).args([
        "run",
        "--quiet",
        "--package",
        "setpoint-attacks",
        "--",
        "--setpoint",
    ]);
    run::check(attacks.arg(setpoint).args(words))
}
