//! One run of one part, in a process of its own: a part that fails is run once more on fresh servers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::folder::KEEP;

/// The exit code of a part whose need this machine does not have.
pub const MISSING: u8 = 77;
/// A part that fails is run this often.
const ATTEMPTS: u32 = 2;

/// How a part ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// It failed once and passed then.
    Flaky(Failure),
    Failed(Failure),
    Missing(String),
}

/// Why a run failed, and where its output and its servers' logs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub folder: PathBuf,
}

/// Runs a part until it passes, at most twice. `run` makes one run of it in the folder that it is given.
pub fn part(
    folder: &Path,
    run: &mut dyn FnMut(&Path) -> Result<std::result::Result<(), Ended>>,
) -> Result<Outcome> {
    let mut first: Option<Failure> = None;
    for attempt in 1..=ATTEMPTS {
        let folder = folder.join(attempt.to_string());
        fs::create_dir_all(&folder)?;
        match run(&folder)? {
            Ok(()) => {
                fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
                return Ok(first.map_or(Outcome::Passed, Outcome::Flaky));
            }
            Err(Ended::Missing(reason)) => return Ok(Outcome::Missing(reason)),
            Err(Ended::Failed(reason)) => {
                first.get_or_insert(Failure { reason, folder });
            }
        }
    }
    Ok(first.map_or(Outcome::Passed, Outcome::Failed))
}

/// A run that did not pass.
#[derive(Debug)]
pub enum Ended {
    Missing(String),
    Failed(String),
}

/// Runs a part in a process of its own, which keeps its output and its servers' folders in `folder`.
pub fn process(name: &str, setpoint: &Path, folder: &Path) -> Result<std::result::Result<(), Ended>> {
    let log = folder.join("output.log");
    let output = File::create(&log)?;
    let began = Instant::now();
    let status = Command::new(std::env::current_exe()?)
        .args(["e2e-part", name])
        .arg(setpoint)
        .env(KEEP, folder)
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    print!("{said}");
    println!("e2e {name}: {status} ({:.1} s)", began.elapsed().as_secs_f64());
    let reason = reason(&said);
    Ok(match status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(MISSING) => Err(Ended::Missing(reason)),
        _ => Err(Ended::Failed(reason)),
    })
}

/// The first line of the error that `main` prints, or the last line of whatever there is.
fn reason(said: &str) -> String {
    let error = said.lines().rev().find_map(|line| line.strip_prefix("xtask: "));
    let last = || said.lines().rev().find(|line| !line.trim().is_empty());
    error.or_else(last).unwrap_or("no output").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a part ends whose runs end like this, and which folders are left.
    fn outcome(runs: &[std::result::Result<(), &str>]) -> (Outcome, Vec<bool>) {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = runs.iter();
        let mut run = |_: &Path| {
            let run = *runs.next().expect("no third run");
            Ok(run.map_err(|reason| Ended::Failed(reason.to_owned())))
        };
        let outcome = part(folder.path(), &mut run).unwrap();
        let left = ["1", "2"].map(|attempt| folder.path().join(attempt).exists()).to_vec();
        (outcome, left)
    }

    fn told(outcome: Outcome) -> String {
        match outcome {
            Outcome::Flaky(failure) => format!("flaky: {}", failure.reason),
            Outcome::Failed(failure) => format!("failed: {}", failure.reason),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn only_a_second_failure_fails_and_the_first_keeps_its_folder() {
        let passed = outcome(&[Ok(())]);
        assert_eq!((told(passed.0), passed.1), ("Passed".to_owned(), vec![false, false]));
        let flaky = outcome(&[Err("late"), Ok(())]);
        assert_eq!((told(flaky.0), flaky.1), ("flaky: late".to_owned(), vec![true, false]));
        let failed = outcome(&[Err("wrong"), Err("late")]);
        assert_eq!((told(failed.0), failed.1), ("failed: wrong".to_owned(), vec![true, true]));
    }

    #[test]
    fn the_reason_is_the_first_line_of_the_error() {
        assert_eq!(reason("a\nxtask: on setpoint: refused:\nmore\n"), "on setpoint: refused:");
        assert_eq!(reason("panicked\n\n"), "panicked");
    }

    #[test]
    fn a_missing_need_is_not_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = 0;
        let outcome = part(folder.path(), &mut |_| {
            runs += 1;
            Ok(Err(Ended::Missing("no go".to_owned())))
        });
        assert_eq!((outcome.unwrap(), runs), (Outcome::Missing("no go".to_owned()), 1));
    }
}
