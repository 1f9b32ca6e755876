//! `cargo xtask soak`: runs that are too long for every change.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::run;

/// Seeds of the disk that loses what was not synced.
const CRASH_SEEDS: &str = "1000";
/// Seeds of the server that misbehaves.
const WATCH_SEEDS: &str = "1000";
/// Times that a writer is killed.
const KILLS: &str = "200";

/// Objects of each operator that are at rest, and how long that is watched.
const STEADY_OBJECTS: usize = 1000;
const STEADY_FOR: Duration = Duration::from_secs(60);

pub fn run(words: &[String]) -> Result<()> {
    match words.first().map(String::as_str) {
        None => {
            example("crash", CRASH_SEEDS)?;
            example("kill", KILLS)?;
            watch(WATCH_SEEDS)
        }
        Some("crash") => example("crash", words.get(1).map_or(CRASH_SEEDS, String::as_str)),
        Some("kill") => example("kill", words.get(1).map_or(KILLS, String::as_str)),
        Some("watch") => {
            watch(words.iter().skip(1).find(|word| *word != "--seeds").map_or(WATCH_SEEDS, String::as_str))
        }
        Some("rollout") => crate::rollout::soak(&words[1..]),
        Some("steady") => {
            let count = words.get(1).map_or(Ok(STEADY_OBJECTS), |word| word.parse())?;
            let setup = crate::e2e::Setup { setpoint: crate::e2e::build()? };
            crate::e2e::steady::at_rest(&setup, count, STEADY_FOR)
        }
        Some(other) => bail!("no soak `{other}`; there are crash, kill, watch, rollout and steady"),
    }
}

/// One of the store's own programs, in release.
fn example(name: &str, count: &str) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(run::root());
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "setpoint-store",
        "--example",
        name,
        "--",
        count,
    ]);
    run::check(&mut command)
}

/// The runtime's caches over a server that misbehaves, in release.
fn watch(seeds: &str) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(run::root()).env("SETPOINT_SEEDS", seeds);
    command.args(["test", "--release", "--quiet", "--package", "setpoint", "--test", "it", "--"]);
    run::check(command.args(["the_cache_ends_equal_to_the_truth_on_every_seed", "--nocapture"]))
}
