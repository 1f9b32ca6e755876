//! `setpoint-wire record|verify|replay|fuzz|policy|plugins`: see `cargo xtask wire`.

// This is a command line.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use setpoint_api::Clock;
use setpoint_wire::peer::Peer;
use setpoint_wire::play::play;
use setpoint_wire::setting::Setting;
use setpoint_wire::target::Target;
use setpoint_wire::{attack, differences, families, fuzz, plugins, policy, scenario, transcript};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // On a signal, end the servers: they are child processes and would stay.
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = run(&words) => ended,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            bail!("interrupted")
        }
        _ = terminated.recv() => bail!("terminated"),
    }
}

async fn run(words: &[String]) -> Result<()> {
    let flag = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let only = flag("--only").map(String::as_str);
    match words.first().map(String::as_str) {
        Some("record") => record(only).await,
        Some("verify") => replay(Targets::of_real(), only, false).await,
        Some("replay") => replay(Targets::of_ours(), only, true).await,
        Some("policy") => policy::record(&Target::real(Arc::new(Peer::start(Setting::Usual)?))).await,
        Some("plugins") => plugins::record(),
        Some("fuzz") => {
            let number = |name: &str, default: u64| match flag(name) {
                Some(text) => text.parse::<u64>().with_context(|| format!("{name} {text}")),
                None => Ok(default),
            };
            let plan = fuzz::Plan {
                seconds: number("--seconds", 60)?,
                seed: number("--seed", 1)?,
                keep_going: words.iter().any(|word| word == "--keep-going"),
            };
            let seconds = fuzz::Seconds::default();
            let ours = Target::ours(seconds.clock(), Setting::Usual).await?;
            let real = Target::real(Arc::new(Peer::start(Setting::Usual)?));
            // Boxed: it plays whole scenarios, which would make the stack of the other commands too large.
            Box::pin(fuzz::run(&fuzz::Pair { real, ours, seconds }, &plan)).await
        }
        _ => bail!(
            "usage: setpoint-wire record|verify|replay|fuzz|policy|plugins [--only FILE] [--seconds N] [--seed S]"
        ),
    }
}

/// Managers are sorted by the second of their last write; recordings keep each scenario within one.
fn fixed_clock() -> Clock {
    Clock::new(|| jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_800_000_000))
}

/// The servers of one run. Each starts when a file first needs its setting.
struct Targets {
    is_real: bool,
    started: BTreeMap<Setting, Target>,
}

impl Targets {
    fn of_real() -> Self {
        Targets { is_real: true, started: BTreeMap::new() }
    }

    fn of_ours() -> Self {
        Targets { is_real: false, started: BTreeMap::new() }
    }

    /// The server that plays a file.
    async fn at(&mut self, stem: &str) -> Result<&Target> {
        let setting = Setting::of(stem);
        match self.started.entry(setting) {
            Entry::Occupied(started) => Ok(started.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(match self.is_real {
                true => Target::real(Arc::new(Peer::start(setting)?)),
                false => Target::ours(fixed_clock(), setting).await?,
            })),
        }
    }
}

/// Plays every scenario against the real server and writes the answers.
async fn record(only: Option<&str>) -> Result<()> {
    let mut targets = Targets::of_real();
    let mut files = scenario::load(&transcript::folder().join("scenarios"))?;
    files.extend(families::all()?);
    files.extend(attack::recorded()?);
    let mut requests = 0;
    for (stem, scenarios) in files {
        if only.is_some_and(|only| !is_meant(only, &stem)) {
            continue;
        }
        let target = targets.at(&stem).await?;
        let mut transcripts = Vec::new();
        for scenario in &scenarios {
            early_in_a_second().await;
            transcripts.push(play(target, scenario).await?);
            requests += scenario.steps.len();
        }
        transcript::save(&stem, &transcripts)?;
        println!("{stem}: {} scenarios", transcripts.len());
    }
    println!("{requests} requests recorded");
    Ok(())
}

/// Whether `--only` names a file: exactly, or by a beginning before `*`.
fn is_meant(only: &str, stem: &str) -> bool {
    only.strip_suffix('*').map_or(only == stem, |beginning| stem.starts_with(beginning))
}

/// Managers are sorted by the second of their last write: a scenario should not straddle two.
async fn early_in_a_second() {
    let fraction = jiff::Timestamp::now().subsec_millisecond();
    if fraction > 500 {
        let rest = u64::try_from(1001 - fraction).unwrap_or_default();
        tokio::time::sleep(std::time::Duration::from_millis(rest)).await;
    }
}

/// Plays every transcript's requests again and prints where the answers differ.
async fn replay(mut targets: Targets, only: Option<&str>, keep: bool) -> Result<()> {
    let kept = if keep { differences::kept()? } else { Vec::new() };
    let (mut requests, mut wrong) = (0, 0);
    for (stem, transcripts) in transcript::load()? {
        if only.is_some_and(|only| !is_meant(only, &stem)) {
            continue;
        }
        let target = targets.at(&stem).await?;
        for recorded in transcripts {
            if !keep {
                early_in_a_second().await;
            }
            let again = play(target, &recorded.scenario()).await?;
            std::fs::create_dir_all("/tmp/fid-ours")?;
            for (at, (real, ours)) in recorded.exchanges.iter().zip(&again.exchanges).enumerate() {
                requests += 1;
                let mut found = differences::between(&real.answer, &ours.answer);
                found.retain(|one| !kept.iter().any(|kept| kept.covers(&recorded.name, at, &one.path)));
                if found.is_empty() {
                    continue;
                }
                wrong += 1;
                println!("{stem}/{} step {at}: {}", recorded.name, real.request.request);
                for one in found.iter().take(6) {
                    println!("    {one}");
                }
                if found.len() > 6 {
                    println!("    and {} more", found.len() - 6);
                }
            }
        }
    }
    println!("{requests} requests, {wrong} answers differ");
    if wrong > 0 {
        bail!("{wrong} of {requests} answers differ");
    }
    Ok(())
}
