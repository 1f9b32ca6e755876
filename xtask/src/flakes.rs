//! `cargo xtask soak flakes`: every test program and every part of the gate many times, with all cores loaded.
//!
//! A state file under `target/` counts the runs, so that a run which was stopped goes on where it was. A program that was
//! built anew begins at zero.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{e2e, flags, run};

/// Runs of each test program, and of each part.
const TIMES: usize = 50;
const PART_TIMES: usize = 5;
/// A run that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(50);

pub fn run(words: &[String]) -> Result<()> {
    flags::check(words, &["--times=", "--only="])?;
    let value = |flag: &str| words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    let times = value("--times").map(|word| word.parse::<usize>()).transpose().context("--times")?;
    let only = value("--only").map_or("", String::as_str);
    let folder = run::target_folder().join("flakes");
    fs::create_dir_all(&folder)?;
    let mut subjects = programs()?;
    subjects.extend(parts(only)?);
    subjects.retain(|subject| subject.name.contains(only));
    if subjects.is_empty() {
        bail!("no test program and no part of the gate is called like `{only}`");
    }
    let state = State::load(folder.join("state.json"))?;
    let _load = Load::begin();
    soak(&subjects, times, state, &folder)
}

/// A test program or a part of the gate.
struct Subject {
    name: String,
    /// Another one after another build.
    version: String,
    times: usize,
    kind: Kind,
}

enum Kind {
    Program { file: PathBuf, folder: PathBuf },
    Part { name: &'static str, setpoint: PathBuf },
}

impl Subject {
    /// One run. Its output and its servers' logs stay in `folder` if it fails.
    fn play(&self, folder: &Path) -> Result<std::result::Result<(), String>> {
        match &self.kind {
            Kind::Program { file, folder: package } => {
                let output = File::create(folder.join("output.log"))?;
                let mut command = Command::new(file);
                command.current_dir(package).env("CARGO_MANIFEST_DIR", package).arg("--quiet");
                ended(command.stdout(output.try_clone()?).stderr(output), DEADLINE)
            }
            Kind::Part { name, setpoint } => e2e::once(name, setpoint, folder),
        }
    }
}

/// Waits for the end of a program. One that hangs is killed.
fn ended(command: &mut Command, deadline: Duration) -> Result<std::result::Result<(), String>> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let began = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Ok(())),
            Some(status) => return Ok(Err(status.to_string())),
            None if began.elapsed() > deadline => {
                child.kill()?;
                child.wait()?;
                return Ok(Err(format!("did not end within {} s", deadline.as_secs())));
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}

/// All of them in turn, so that a run that is stopped has seen each about as often.
fn soak(subjects: &[Subject], times: Option<usize>, mut state: State, folder: &Path) -> Result<()> {
    let wanted = |subject: &Subject| times.unwrap_or(subject.times);
    let most = subjects.iter().map(wanted).max().unwrap_or(0);
    for round in 1..=most {
        for subject in subjects.iter().filter(|subject| round <= wanted(subject)) {
            if state.runs(subject) >= round {
                continue;
            }
            let began = Instant::now();
            let kept = folder.join(format!("{}-{round}", subject.name.replace([' ', '/'], "-")));
            // A run that was stopped in the middle, or that failed before another build, leaves its files.
            if kept.is_dir() {
                fs::remove_dir_all(&kept)?;
            }
            fs::create_dir_all(&kept)?;
            let failure = subject.play(&kept)?.err();
            match &failure {
                None => fs::remove_dir_all(&kept)?,
                Some(reason) => {
                    println!(
                        "{} failed in run {round} after {:.0} s: {reason} ({})",
                        subject.name,
                        began.elapsed().as_secs_f64(),
                        kept.display()
                    );
                }
            }
            state
                .note(subject, failure.map(|reason| format!("run {round}: {reason} ({})", kept.display())))?;
        }
        println!("round {round} of {most} is done");
    }
    let failures: Vec<String> = subjects.iter().flat_map(|subject| state.failures(subject)).collect();
    println!("{} programs and parts, {} failures", subjects.len(), failures.len());
    if failures.is_empty() { Ok(()) } else { bail!("failures:\n{}", failures.join("\n")) }
}

/// Every test program, as `cargo test --workspace` builds them.
fn programs() -> Result<Vec<Subject>> {
    let words = ["test", "--workspace", "--no-run", "--quiet", "--message-format=json"];
    let messages = run::read(run::cargo().args(words))?;
    let mut subjects = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (Some(file), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        if message["profile"]["test"] != true {
            continue;
        }
        let folder = Path::new(manifest).parent().context("a manifest has a folder")?.to_path_buf();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let target = message["target"]["name"].as_str().unwrap_or_default();
        subjects.push(Subject {
            name: format!("{package} {target}"),
            version: version(Path::new(file))?,
            times: TIMES,
            kind: Kind::Program { file: PathBuf::from(file), folder },
        });
    }
    Ok(subjects)
}

/// The parts of the gate, on the program that the tests built. Their peers are built before anything is loaded.
fn parts(only: &str) -> Result<Vec<Subject>> {
    let name = |part: &str| format!("e2e {part}");
    let wanted: Vec<&'static str> = e2e::gate().filter(|part| name(part).contains(only)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let setpoint = e2e::build_as_tests()?;
    let version = version(&setpoint)?;
    let subject = |part| Subject {
        name: name(part),
        version: version.clone(),
        times: PART_TIMES,
        kind: Kind::Part { name: part, setpoint: setpoint.clone() },
    };
    Ok(wanted.into_iter().map(subject).collect())
}

/// When the file was written.
fn version(file: &Path) -> Result<String> {
    let written = fs::metadata(file).with_context(|| file.display().to_string())?.modified()?;
    Ok(written.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().to_string())
}

/// The runs so far, by name.
struct State {
    file: PathBuf,
    subjects: BTreeMap<String, Value>,
}

impl State {
    fn load(file: PathBuf) -> Result<Self> {
        let subjects = match fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| file.display().to_string())?,
            Err(_) => BTreeMap::new(),
        };
        Ok(Self { file, subjects })
    }

    /// The notes on this build of a subject.
    fn noted(&self, subject: &Subject) -> Option<&Value> {
        self.subjects.get(&subject.name).filter(|noted| noted["version"] == subject.version.as_str())
    }

    fn runs(&self, subject: &Subject) -> usize {
        self.noted(subject).and_then(|noted| noted["runs"].as_u64()).unwrap_or(0) as usize
    }

    fn failures(&self, subject: &Subject) -> Vec<String> {
        let failures = self.noted(subject).and_then(|noted| noted["failures"].as_array());
        let failures = failures.into_iter().flatten().filter_map(Value::as_str);
        failures.map(|failure| format!("{}: {failure}", subject.name)).collect()
    }

    /// One more run. It is written down at once: the next moment may be the last.
    fn note(&mut self, subject: &Subject, failure: Option<String>) -> Result<()> {
        let runs = self.runs(subject) + 1;
        let earlier = self.noted(subject).and_then(|noted| noted["failures"].as_array().cloned());
        let failures: Vec<Value> = earlier.into_iter().flatten().chain(failure.map(Value::String)).collect();
        let noted = json!({ "version": subject.version, "runs": runs, "failures": failures });
        self.subjects.insert(subject.name.clone(), noted);
        // A write that is cut off must not cost the counts of all earlier runs.
        let half = self.file.with_extension("half");
        fs::write(&half, serde_json::to_string_pretty(&self.subjects)?)?;
        fs::rename(&half, &self.file).with_context(|| self.file.display().to_string())
    }
}

/// A thread for each core that does nothing but use it.
struct Load(Arc<AtomicBool>);

impl Load {
    fn begin() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(program: &str, version: &str) -> Subject {
        let kind = Kind::Program { file: PathBuf::from(program), folder: PathBuf::from("/") };
        Subject { name: "store it".to_owned(), version: version.to_owned(), times: 3, kind }
    }

    #[test]
    fn a_soak_goes_on_where_it_was_and_a_new_build_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let state = || State::load(file.clone()).unwrap();
        soak(&[subject("true", "1")], Some(2), state(), folder.path()).unwrap();
        assert_eq!(state().runs(&subject("true", "1")), 2);
        // The run that was stopped while it wrote its state, and in the middle of the third run.
        fs::write(file.with_extension("half"), "{").unwrap();
        fs::create_dir(folder.path().join("store-it-3")).unwrap();
        fs::write(folder.path().join("store-it-3/output.log"), "half").unwrap();
        soak(&[subject("true", "1")], None, state(), folder.path()).unwrap();
        assert_eq!(state().runs(&subject("true", "1")), 3);
        assert_eq!(state().runs(&subject("true", "2")), 0);
    }

    #[test]
    fn a_failure_is_told_at_the_end_and_keeps_its_output() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        let state = State::load(file.clone()).unwrap();
        let error = soak(&[subject("false", "1")], Some(1), state, folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("failures:\nstore it: run 1: exit status: 1 ("), "{error}");
        assert!(folder.path().join("store-it-1/output.log").is_file());
        // A later soak tells it too, without a run.
        let again = soak(&[subject("false", "1")], Some(1), State::load(file).unwrap(), folder.path());
        assert_eq!(again.unwrap_err().to_string(), error);
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let deadline = Duration::from_millis(100);
        let said = ended(Command::new("sleep").arg("60"), deadline).unwrap();
        assert_eq!(said, Err("did not end within 0 s".to_owned()));
    }
}
