//! `cargo xtask bench prove --blackbox`: `setpoint prove` on the seeded operators as processes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::e2e::seeded::{self, Subject, printed, prove, write_definition};
use crate::{e2e, run};

/// Runs of each bug.
const RUNS: usize = 3;
/// The bugs that the subject in Python has.
const PYTHON: [u64; 13] = [1, 2, 3, 5, 8, 9, 29, 32, 33, 35, 36, 37, 40];

/// The choice of what is measured.
struct Choice {
    python: bool,
    only: Vec<u64>,
    runs: usize,
    budget: String,
    setpoint: Option<PathBuf>,
}

impl Choice {
    fn of(words: &[String]) -> Result<Choice> {
        let mut choice =
            Choice { python: false, only: Vec::new(), runs: RUNS, budget: "5m".into(), setpoint: None };
        for word in words {
            match word.split_once('=') {
                None if word == "--python" => choice.python = true,
                Some(("--only", bugs)) => {
                    choice.only = bugs.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                Some(("--runs", runs)) => choice.runs = runs.parse()?,
                Some(("--budget", budget)) => choice.budget = budget.into(),
                Some(("--setpoint", program)) => choice.setpoint = Some(program.into()),
                _ => bail!(
                    "`{word}` is unexpected; there are --python, --only=, --runs=, --budget= and --setpoint="
                ),
            }
        }
        Ok(choice)
    }

    fn measures(&self, bug: u64) -> bool {
        (self.only.is_empty() || self.only.contains(&bug)) && (!self.python || PYTHON.contains(&bug))
    }
}

/// One proof of a bug.
struct Try {
    found: bool,
    runs: f64,
    seconds: f64,
}

pub fn run(words: &[String]) -> Result<()> {
    let choice = Choice::of(words)?;
    let setpoint = match &choice.setpoint {
        Some(program) => std::fs::canonicalize(program)?,
        None => e2e::build()?,
    };
    let folder = run::root().join("target/bench-prove");
    std::fs::create_dir_all(&folder)?;
    write_definition(&folder)?;
    let subject = if choice.python { seeded::python()? } else { seeded::go(&folder)? };
    let lives: Vec<Value> = serde_json::from_slice(&printed("score", &["lives"])?)?;
    println!("{:<26}{:>8}{:>14}{:>18}", "bug", "found", "median runs", "median seconds");
    let (mut found, mut tried) = (0, 0);
    for life in &lives {
        let bug = life["bug"].as_u64().context("a life without a bug")?;
        if bug != 0 && choice.measures(bug) {
            tried += 1;
            found += usize::from(measure(&choice, &setpoint, &folder, &subject, life)?);
        }
    }
    println!("found in {} as a process: {found} of {tried}", subject.name);
    if choice.only.is_empty() {
        sound(&choice, &setpoint, &folder, &subject, &lives)?;
    }
    Ok(())
}

/// Measures one bug. Returns whether all its tries found it.
fn measure(choice: &Choice, setpoint: &Path, folder: &Path, subject: &Subject, life: &Value) -> Result<bool> {
    let mut tries = Vec::new();
    for _ in 0..choice.runs {
        tries.push(attempt(choice, setpoint, folder, subject, life)?);
    }
    let found: Vec<&Try> = tries.iter().filter(|each| each.found).collect();
    let median = |of: fn(&Try) -> f64| {
        let mut values: Vec<f64> = found.iter().map(|each| of(each)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let name = format!("{} {}", life["bug"], life["name"].as_str().unwrap_or_default());
    let share = format!("{}/{}", found.len(), choice.runs);
    println!("{name:<26}{share:>8}{:>14}{:>18.1}", median(|each| each.runs), median(|each| each.seconds));
    Ok(found.len() == choice.runs)
}

fn attempt(choice: &Choice, setpoint: &Path, folder: &Path, subject: &Subject, life: &Value) -> Result<Try> {
    // JSON is YAML.
    std::fs::write(folder.join("life.yaml"), life["life"].to_string())?;
    let budget = format!("--budget={}", choice.budget);
    let mut flags = vec!["--findings=1", &budget];
    if life["late"] == true {
        flags.push("--server-like=1.31");
    }
    let bug = life["bug"].as_u64().and_then(|bug| u8::try_from(bug).ok()).context("the bug has no number")?;
    let began = Instant::now();
    let proof = prove(setpoint, folder, subject, bug, &flags)?;
    let advised = life["advisory"] == true && proof.text.contains("advice: ");
    if !matches!(proof.code, Some(0 | 1)) {
        bail!("bug {bug}: no proof:\n{}", proof.text);
    }
    std::fs::write(folder.join(format!("{}-{bug}.txt", subject.name)), &proof.text)?;
    let runs = proof.number("run").unwrap_or_default();
    Ok(Try { found: proof.code == Some(1) || advised, runs, seconds: began.elapsed().as_secs_f64() })
}

/// Proves the operator without a bug, and says how fast that was.
fn sound(choice: &Choice, setpoint: &Path, folder: &Path, subject: &Subject, lives: &[Value]) -> Result<()> {
    let life = lives.iter().find(|life| life["bug"] == 0).context("no life without a bug")?;
    std::fs::write(folder.join("life.yaml"), life["life"].to_string())?;
    let budget = format!("--budget={}", choice.budget);
    let began = Instant::now();
    let proof = prove(setpoint, folder, subject, 0, &[&budget])?;
    println!("{}", proof.text.trim_end());
    let plans = proof.number("plan").unwrap_or_default();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "the sound operator in {}: {plans} plans in {seconds:.0} s with the undisturbed life",
        subject.name
    );
    match proof.code {
        Some(0) => Ok(()),
        _ => bail!("a false alarm"),
    }
}
