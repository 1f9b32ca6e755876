//! `setpoint prove` on operators in Go and Python: the sound ones have no finding, and each of some bugs is found.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Missing, Setup};
use crate::run;

/// The life of each subject: there, and away.
const LIFE: &str = "\
- apply: {apiVersion: seeded.example.org/v1, kind: Store, metadata: {name: a}, spec: {replicas: 1, size: 10Gi}}
- apply: {apiVersion: seeded.example.org/v1, kind: Store, metadata: {name: a}, spec: {replicas: 1, size: 15Gi}}
- delete: {name: a}
";
/// The bugs that are tried, with a word of the finding. All of them are woken by a crash.
const BUGS: [(u8, &str); 3] =
    [(1, "secrets/a-users is missing"), (2, "configmaps/a-config"), (8, "configmaps/a-member-*")];

/// A subject: its name, its program, and how it is told its bug.
struct Subject {
    name: &'static str,
    program: PathBuf,
    arguments: fn(u8) -> Vec<String>,
}

pub fn run(setup: &Setup) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let folder = super::folder::new()?;
    let folder = folder.path();
    std::fs::write(folder.join("life.yaml"), LIFE)?;
    std::fs::write(folder.join("crd.json"), definition()?)?;
    let go = Subject {
        name: "go",
        program: folder.join("seeded-go"),
        arguments: |bug| vec!["--".into(), format!("--bug={bug}")],
    };
    let mut build = Command::new("go");
    let source = run::root().join("peers/seeded-go");
    run::check(
        build
            .current_dir(source)
            .env("CGO_ENABLED", "0")
            .args(["build", "-buildvcs=false", "-o"])
            .arg(&go.program),
    )?;
    try_subject(setup, folder, &go)?;
    let Some(kopf) = run::found("kopf") else {
        println!(
            "prove: python is left out: kopf is not on the search path (peers/seeded-python/requirements.txt)"
        );
        return Ok(());
    };
    let python = Subject {
        name: "python",
        program: kopf,
        arguments: |bug| {
            let store = run::root().join("peers/seeded-python/store.py");
            let run = ["run", "--standalone", "--namespace=default"].map(str::to_owned);
            let words = [vec![format!("--env=BUG={bug}"), "--".into()], run.to_vec()].concat();
            [words, vec![store.display().to_string()]].concat()
        },
    };
    try_subject(setup, folder, &python)
}

fn try_subject(setup: &Setup, folder: &Path, subject: &Subject) -> Result<()> {
    let (code, sound) = prove(setup, folder, subject, 0)?;
    ensure!(code == Some(0), "the sound {} operator has findings:\n{sound}", subject.name);
    println!("prove: {} without a bug:\n{sound}", subject.name);
    for (bug, word) in BUGS {
        let (code, text) = prove(setup, folder, subject, bug)?;
        ensure!(code == Some(1) && text.contains(word), "bug {bug} of {}: no finding:\n{text}", subject.name);
        println!("prove: {} finds bug {bug}: {}", subject.name, text.lines().next().unwrap_or_default());
    }
    Ok(())
}

fn prove(setup: &Setup, folder: &Path, subject: &Subject, bug: u8) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(&setup.setpoint);
    let program = format!("{}={}", subject.name, subject.program.display());
    command.current_dir(folder).args(["prove", "--manifests=crd.json", "--life=life.yaml", "--budget=3m"]);
    command.args(["--findings=1", "--program", &program]).args((subject.arguments)(bug));
    let output = command.output().context("setpoint prove")?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.code(), text))
}

/// Returns the definition of the kind, as the Rust subject prints it.
fn definition() -> Result<Vec<u8>> {
    let mut cargo = Command::new(env!("CARGO"));
    let printed = cargo
        .current_dir(run::root())
        .args(["run", "--quiet", "-p", "seeded-operator", "--", "--definition"])
        .output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Ok(printed.stdout)
}
