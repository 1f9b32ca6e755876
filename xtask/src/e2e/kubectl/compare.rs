//! The same commands against kube-apiserver and against ours: exit status, output and errors must be the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use setpoint_peers::Options;

use super::normal::normal;
use super::steps::{self, Action, Look, Step};
use crate::e2e::Setup;
use crate::e2e::cluster::Cluster;

const SCRIPT: &str = include_str!("steps.txt");
/// kube-apiserver publishes the schemas of new definitions within two seconds.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(2500);

/// The result of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    status: Option<i32>,
    output: String,
    errors: String,
}

pub fn current(setup: &Setup) -> Result<()> {
    compare(setup, "kubectl")
}

pub fn oldest(setup: &Setup) -> Result<()> {
    compare(setup, "kubectl-1.32")
}

fn compare(setup: &Setup, name: &str) -> Result<()> {
    let program = setup.peer(name)?;
    let script = steps::read(SCRIPT)?;
    let mut differences = differing(setup, &program, &script)?;
    println!("{name}: {} steps on both servers", script.len());
    if !differences.is_empty() {
        // The real server does some things when its own clock says so; what differs because of that differs once.
        let again = differing(setup, &program, &script)?;
        println!("{name}: {} steps differed once, {} at the second try", differences.len(), again.len());
        differences.retain(|at, _| again.contains_key(at));
    }
    let text: Vec<String> = differences.into_values().collect();
    ensure!(text.is_empty(), "{} steps differ twice:\n{}", text.len(), text.join("\n"));
    Ok(())
}

/// The steps whose outcome is another one on ours, by their number.
fn differing(setup: &Setup, program: &Path, script: &[Step]) -> Result<BTreeMap<usize, String>> {
    let folder = crate::e2e::folder::new()?;
    let real = setup.control_plane(folder.path(), &Options::default())?;
    let ours = Cluster::start(&setup.setpoint, &["--no-controllers"])?;
    let run = |kubeconfig: PathBuf| move || Runner::new(program, kubeconfig)?.run(script);
    let (expected, found) = std::thread::scope(|scope| {
        let real = scope.spawn(run(real.kubeconfig()));
        let ours = scope.spawn(run(ours.folder.path().join("k.yaml")));
        (real.join().expect("the real one's thread"), ours.join().expect("our thread"))
    });
    let (expected, found) = (expected?, found?);
    let mut differences = BTreeMap::new();
    for (at, ((step, real), ours)) in script.iter().zip(&expected).zip(&found).enumerate() {
        if real != ours {
            differences.insert(at, format!("kubectl {}\n{}", step.line, difference(real, ours)));
        }
    }
    Ok(differences)
}

/// The lines of an explanation that name something.
fn fields(text: &str) -> String {
    let names = |line: &&str| {
        let line = line.trim();
        let heading = line.split_once(':').is_some_and(|(word, _)| {
            ["GROUP", "KIND", "VERSION", "FIELD", "FIELDS", "RESOURCE", "enum"].contains(&word)
        });
        let field =
            line.split_once(' ').is_some_and(|(_, kind)| kind.starts_with('<') && kind != "<no description>");
        heading || field
    };
    text.lines().filter(names).collect::<Vec<_>>().join("\n")
}

/// Lines that one has and the other has not.
fn difference(real: &Outcome, ours: &Outcome) -> String {
    let mut text = String::new();
    if real.status != ours.status {
        text += &format!("  exit status {:?}, ours {:?}\n", real.status, ours.status);
    }
    for (real, ours) in [(&real.output, &ours.output), (&real.errors, &ours.errors)] {
        let (real, ours): (Vec<&str>, Vec<&str>) = (real.lines().collect(), ours.lines().collect());
        let same = real.iter().zip(&ours).take_while(|(real, ours)| real == ours).count();
        for line in real.iter().skip(same).filter(|line| !ours[same..].contains(line)) {
            text += &format!("  - {line}\n");
        }
        for line in ours.iter().skip(same).filter(|line| !real[same.min(real.len())..].contains(line)) {
            text += &format!("  + {line}\n");
        }
    }
    text
}

/// One server's side.
struct Runner<'p> {
    program: &'p Path,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

impl<'p> Runner<'p> {
    fn new(program: &'p Path, kubeconfig: PathBuf) -> Result<Self> {
        Ok(Runner { program, kubeconfig, folder: crate::e2e::folder::new()? })
    }

    fn run(&self, script: &[Step]) -> Result<Vec<Outcome>> {
        script.iter().map(|step| self.step(step).with_context(|| step.line.clone())).collect()
    }

    fn step(&self, step: &Step) -> Result<Outcome> {
        let input = step.input.as_deref().unwrap_or_default();
        let (words, look, editor) = match &step.action {
            Action::File(name) => {
                fs::write(self.folder.path().join(name), input)?;
                return Ok(Outcome::default());
            }
            Action::Settle => {
                std::thread::sleep(PUBLISHED_WITHIN);
                return Ok(Outcome::default());
            }
            Action::Kubectl { words, look, editor } => (words, *look, editor),
        };
        let mut command = Command::new(self.program);
        command.current_dir(self.folder.path()).args(words).env("KUBECONFIG", &self.kubeconfig);
        command.env("HOME", self.folder.path()).env("TMPDIR", self.folder.path());
        if let Some(words) = editor {
            command.env("KUBE_EDITOR", self.editor(words)?);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut pipe = child.stdin.take().context("no input")?;
        // A command that refuses its flags does not read.
        let _ = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output()?;
        Ok(self.outcome(&output, look))
    }

    /// kubectl splits its editor at spaces only: a script keeps the words whole.
    fn editor(&self, words: &[String]) -> Result<PathBuf> {
        let path = self.folder.path().join("editor.sh");
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        fs::write(&path, format!("#!/bin/sh\nexec {} \"$@\"\n", quoted.join(" ")))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    fn outcome(&self, output: &std::process::Output, look: Look) -> Outcome {
        let folder = self.folder.path().to_string_lossy();
        let text = |bytes: &[u8]| {
            let text = normal(&String::from_utf8_lossy(bytes), &folder);
            match look {
                Look::All => text,
                Look::Sorted => {
                    let mut lines: Vec<&str> = text.lines().collect();
                    lines.sort_unstable();
                    lines.join("\n")
                }
                Look::Fields => fields(&text),
                Look::FirstLine => text.lines().next().unwrap_or_default().to_owned(),
                Look::Status | Look::Nothing => String::new(),
            }
        };
        if look == Look::Nothing {
            return Outcome::default();
        }
        Outcome { status: output.status.code(), output: text(&output.stdout), errors: text(&output.stderr) }
    }
}
