//! Measures the prover on the seeded operator: `score bench [SEEDS]`, `score soak [RUNS]`, `score idle [HOURS]`.
//! `score speed [SECONDS]` counts the runs of MyResource in a second.
//! `score lives` prints the life of each bug as JSON.
//! `score trace [SEED [BUG]]` prints everything that happens in the undisturbed life, and `score page [BUG]` the HTML report of
//! the exploration of a bug.
#![allow(clippy::unwrap_used, reason = "a measurement that fails must stop")]
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement reads the machine's clock and its own arguments"
)]

#[path = "../../tests/it/lives.rs"]
mod lives;
#[path = "../../tests/it/plans.rs"]
mod plans;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use seeded_operator::Bug;
use serde_json::json;
use setpoint_cluster::{Cluster, Controllers, Options};
use setpoint_prove::{Operator, Oracle, Report, prove};

use lives::{proof, there_and_back};
use plans::plan;

/// Seeds of a measurement.
const SEEDS: u64 = 20;
/// Runs of the sound operator.
const RUNS: usize = 100_000;
/// Seconds in which runs are counted.
const SPEED_SECONDS: u64 = 20;
/// Plans of one exploration before a bug counts as missed.
const BUDGET: usize = 2_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |default: u64| words.get(1).map_or(default, |word| word.parse().unwrap());
    match words.first().map(String::as_str) {
        Some("bench") => bench(number(SEEDS)),
        Some("soak") => soak(usize::try_from(number(RUNS as u64)).unwrap()),
        Some("trace") => {
            let seeded = |settings: &mut setpoint_prove::Settings| settings.seed = number(1);
            let bug = words.get(2).map(|word| bug(word.parse().unwrap()));
            let (late, life) = bug.map_or((false, there_and_back()), |bug| (bug.starts_late(), plan(bug).0));
            print!("{}", proof(bug, late).settings(seeded).steps(life).record().unwrap());
            ExitCode::SUCCESS
        }
        Some("idle") => idle(number(24)),
        Some("speed") => speed(number(SPEED_SECONDS)),
        Some("lives") => {
            println!("{}", serde_json::Value::from(lives()));
            ExitCode::SUCCESS
        }
        Some("page") => {
            print!("{}", explore(bug(number(1)), 1).html());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: score bench [SEEDS] | soak [RUNS] | idle [HOURS] | speed [SECONDS] | lives | trace [SEED [BUG]] | page [BUG]"
            );
            ExitCode::FAILURE
        }
    }
}

/// Returns the life of each bug, for subjects that are processes. Number 0 is the sound operator.
fn lives() -> Vec<serde_json::Value> {
    let sound = serde_json::json!({"bug": 0, "life": there_and_back()});
    let of_bug = |bug: Bug| {
        let (life, _, oracle) = plan(bug);
        serde_json::json!({
            "bug": bug as u8, "name": format!("{bug:?}"), "life": life, "late": bug.starts_late(),
            "advisory": oracle == Oracle::Effect,
        })
    };
    std::iter::once(sound).chain(Bug::ALL.into_iter().map(of_bug)).collect()
}

/// Returns the bug with a number.
fn bug(number: u64) -> Bug {
    Bug::ALL.into_iter().find(|bug| *bug as u64 == number).unwrap()
}

/// Explores the life of a bug with a seed.
fn explore(bug: Bug, seed: u64) -> Report {
    let (life, _, _) = plan(bug);
    let mut proof = proof(Some(bug), bug.starts_late()).steps(life).settings(|settings| {
        settings.seed = seed;
        settings.runs = BUDGET;
    });
    if bug.starts_late() {
        proof = proof.server_like("1.31");
    }
    proof.run().unwrap()
}

fn bench(seeds: u64) -> ExitCode {
    let mut found = 0;
    println!("{:<26}{:>8}{:>14}{:>18}", "bug", "found", "median runs", "median seconds");
    for bug in Bug::ALL {
        let (mut runs, mut millis) = (Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let began = Instant::now();
            let report = explore(bug, seed);
            let seen = match plan(bug).2 {
                Oracle::Effect => report.advisories.iter().any(|advisory| advisory.oracle == Oracle::Effect),
                _ => !report.findings.is_empty(),
            };
            if seen {
                runs.push(report.runs);
                millis.push(began.elapsed().as_millis());
            }
        }
        found += usize::from(!runs.is_empty());
        let (runs_median, millis_median) = (median(&mut runs), median(&mut millis));
        let seconds = format!("{}.{:03}", millis_median / 1000, millis_median % 1000);
        let share = format!("{}/{seeds}", runs.len());
        println!("{:<26}{share:>8}{runs_median:>14}{seconds:>18}", format!("{bug:?}"));
    }
    println!("found in process: {found} of {}", Bug::ALL.len());
    idle(24);
    speed(SPEED_SECONDS);
    soak(usize::try_from(seeds).unwrap() * 100)
}

/// Measures what an idle virtual hour of a bare cluster costs.
fn idle(hours: u64) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let micros = runtime.unwrap().block_on(async {
        let mut options = Options { controllers: Controllers::None, seed: Some(1), ..Options::default() };
        options.nodes.count = 0;
        options.clock = Some(setpoint::clock::tokio_clock("2026-01-01T00:00:00Z".parse().unwrap()));
        let cluster = Cluster::start(options).await.unwrap();
        cluster.advance(Duration::from_secs(60)).await;
        let began = Instant::now();
        cluster.advance(Duration::from_secs(3600 * hours)).await;
        began.elapsed().as_micros()
    });
    let each = micros / u128::from(hours.max(1));
    println!("an idle virtual hour of a bare cluster costs {each} µs (mean of {hours})");
    ExitCode::SUCCESS
}

/// Counts the runs of MyResource on one core: each plan begins with a cluster, its controllers and the operator anew.
fn speed(seconds: u64) -> ExitCode {
    let operator = Operator {
        name: myresource_operator::NAME,
        register: myresource_operator::register,
        manifests: myresource_operator::manifests,
    };
    let resource = json!({
        "apiVersion": "mygroup.example.com/v1alpha1", "kind": "MyResource", "metadata": {"name": "a"},
        "spec": {"image": "nginx", "memory": "512Mi"},
    });
    let controllers = ["deployment", "replicaset", "garbage", "serviceaccount", "scheduler"];
    let (mut runs, mut seed, began) = (0, 0, Instant::now());
    while began.elapsed() < Duration::from_secs(seconds) {
        seed += 1;
        let report = prove(operator)
            .cluster(|options| {
                options.controllers = Controllers::Only(controllers.map(str::to_owned).to_vec());
            })
            // A day with a node is one long run: it says nothing about the others.
            .without("idle time")
            .settings(|settings| {
                settings.seed = seed;
                settings.patience = Duration::from_secs(120);
                settings.settle = Duration::from_secs(10);
                settings.plans = 200;
            })
            .apply(resource.clone())
            .patch("a", json!({"spec": {"image": "nginx:2"}}))
            .delete("a")
            .check();
        runs += report.runs;
    }
    let rate = runs as f64 / began.elapsed().as_secs_f64();
    println!(
        "MyResource with a node and five controllers: {rate:.0} runs in a second on one core ({runs} runs)"
    );
    ExitCode::SUCCESS
}

fn median<T: Ord + Copy + Default>(values: &mut [T]) -> T {
    values.sort();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Proves the sound operator with one seed after the other.
fn soak(least: usize) -> ExitCode {
    let (mut runs, mut seed) = (0, 0);
    while runs < least {
        seed += 1;
        let report = proof(None, false).steps(there_and_back()).settings(|settings| settings.seed = seed);
        let report = report.run().unwrap();
        runs += report.runs;
        if !report.findings.is_empty() || report.unconfirmed > 0 {
            println!("a false alarm with seed {seed}:\n{report}");
            return ExitCode::FAILURE;
        }
    }
    println!("the sound operator: {runs} runs with {seed} seeds, no finding");
    ExitCode::SUCCESS
}
