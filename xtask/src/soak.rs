//! `cargo xtask soak [NAME]`: runs that are too long for every change, one or all of them.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::{bench, e2e, flags, flakes, run};

/// Seeds of the disk that loses unsynced data.
const CRASH_SEEDS: &str = "1000";
/// Seeds of the server that misbehaves.
const WATCH_SEEDS: &str = "1000";
/// Times that the store's writer is killed.
const STORE_KILLS: &str = "200";

/// Objects of each operator that are at rest, and how long that is watched.
const STEADY_OBJECTS: usize = 1000;
const STEADY_FOR: Duration = Duration::from_secs(60);

pub fn run(words: &[String]) -> Result<()> {
    let first = |default| words.get(1).map_or(default, String::as_str);
    match words.first().map(String::as_str) {
        None => {
            store("crash", CRASH_SEEDS)?;
            store("kill", STORE_KILLS)?;
            kill(&[])?;
            watch(WATCH_SEEDS)?;
            e2e::rollout_kill::soak(&[])?;
            steady(STEADY_OBJECTS)?;
            e2e::runtime::oldest()?;
            bench::prove("soak", &[])?;
            e2e::all_suites()
        }
        Some("crash") => store("crash", first(CRASH_SEEDS)),
        Some("store-kill") => store("kill", first(STORE_KILLS)),
        Some("kill") => {
            flags::check(&words[1..], &["--times=", "--seed="])?;
            kill(&words[1..])
        }
        Some("watch") => {
            watch(words.iter().skip(1).find(|word| *word != "--seeds").map_or(WATCH_SEEDS, String::as_str))
        }
        Some("rollout") => {
            flags::check(&words[1..], &["--times=", "--seed="])?;
            e2e::rollout_kill::soak(&words[1..])
        }
        Some("flakes") => flakes::run(&words[1..]),
        Some("steady") => steady(words.get(1).map_or(Ok(STEADY_OBJECTS), |word| word.parse())?),
        Some("prove") => bench::prove("soak", &words[1..]),
        Some("oldest") => e2e::runtime::oldest(),
        Some("controller-runtime") => e2e::all_suites(),
        Some(other) => bail!(
            "no soak `{other}`; there are `crash [SEEDS]`, `store-kill [TIMES]`, `kill [--times N] [--seed S]`, \
             `watch [--seeds N]`, `rollout`, `flakes [--times N] [--only NAME]`, `steady [OBJECTS]`, `prove [RUNS]`, `oldest` and `controller-runtime`"
        ),
    }
}

/// Operators that have nothing to do ask nothing.
fn steady(objects: usize) -> Result<()> {
    let setup = e2e::Setup { setpoint: e2e::build()? };
    e2e::steady::at_rest(&setup, objects, STEADY_FOR)
}

/// One of the store's own programs.
fn store(name: &str, count: &str) -> Result<()> {
    cargo_run(&["--package", "setpoint-store", "--example", name, "--", count])
}

/// The whole server, killed while it is written to.
fn kill(flags: &[String]) -> Result<()> {
    let setpoint = e2e::build()?;
    let program = setpoint.to_string_lossy();
    let mut words = vec!["--package", "setpoint-bench", "--", "kill", "--setpoint", &program];
    words.extend(flags.iter().map(String::as_str));
    cargo_run(&words)
}

/// Runs in release mode, as users run it.
fn cargo_run(words: &[&str]) -> Result<()> {
    run::check(run::cargo().args(["run", "--release", "--quiet"]).args(words))
}

/// The runtime's caches over a server that misbehaves, in release.
fn watch(seeds: &str) -> Result<()> {
    let mut command = run::cargo();
    command.env("SETPOINT_SEEDS", seeds);
    command.args(["test", "--release", "--quiet", "--package", "setpoint", "--test", "it", "--"]);
    run::check(command.args(["the_cache_ends_equal_to_the_truth_on_every_seed", "--nocapture"]))
}
