//! `setpoint prove` on operators in Go and Python: the sound ones have no finding, each of some bugs is found, and a
//! browser shows the report.

use std::path::Path;

use anyhow::{Result, ensure};

use super::seeded::{self, Subject, prove, write_definition};
use super::{Missing, Setup, browser};
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

pub fn run(setup: &Setup) -> Result<()> {
    let folder = super::folder::new()?;
    let folder = folder.path();
    std::fs::write(folder.join("life.yaml"), LIFE)?;
    write_definition(folder)?;
    let go = seeded::go(folder)?;
    try_subject(setup, folder, &go, "2m", &BUGS)?;
    page(setup, folder, &go)?;
    // An interpreter takes its time to start, so fewer plans must do.
    try_subject(setup, folder, &seeded::python()?, "3m", &BUGS[..1])
}

fn try_subject(
    setup: &Setup,
    folder: &Path,
    subject: &Subject,
    budget: &str,
    bugs: &[(u8, &str)],
) -> Result<()> {
    let budget = format!("--budget={budget}");
    let sound = prove(&setup.setpoint, folder, subject, 0, &[&budget])?;
    ensure!(sound.code == Some(0), "the sound {} operator has findings:\n{}", subject.name, sound.text);
    ensure!(sound.number("plan") > Some(0.0), "nothing was tried on {}:\n{}", subject.name, sound.text);
    println!("prove: {} without a bug:\n{}", subject.name, sound.text);
    for &(bug, word) in bugs {
        let proof = prove(&setup.setpoint, folder, subject, bug, &["--budget=9m", "--findings=1"])?;
        let found = proof.code == Some(1) && proof.text.contains(word);
        ensure!(found, "bug {bug} of {}: no finding:\n{}", subject.name, proof.text);
        let headline = proof.text.lines().find(|line| line.starts_with('✗')).unwrap_or_default();
        println!("prove: {} finds bug {bug}: {headline}", subject.name);
    }
    Ok(())
}

/// Looks at the report of a finding in a browser, and replays its plan file.
fn page(setup: &Setup, folder: &Path, subject: &Subject) -> Result<()> {
    let chromium =
        run::found("chromium").ok_or_else(|| Missing("chromium is not on the search path".into()))?;
    let flags = ["--budget=5m", "--findings=1", "--report=page.html", "--junit=out.xml", "--folder=found"];
    let proof = prove(&setup.setpoint, folder, subject, 1, &flags)?;
    ensure!(proof.code == Some(1), "bug 1: no finding:\n{}", proof.text);
    let url = format!("file://{}", folder.join("page.html").display());
    browser::page_shows(&chromium, &url, &["secrets/a-users is missing", "crash after a write", "</table>"])?;
    let junit = std::fs::read_to_string(folder.join("out.xml"))?;
    ensure!(junit.contains("<failure message=") && junit.contains("failures=\"1\""), "{junit}");
    let mut again = std::process::Command::new(&setup.setpoint);
    let again = again.current_dir(folder).args(["prove", "--replay=found/1.yaml"]).output()?;
    let text = String::from_utf8_lossy(&again.stdout);
    ensure!(
        again.status.code() == Some(1) && text.contains("secrets/a-users is missing"),
        "the replay: {text}"
    );
    Ok(())
}
