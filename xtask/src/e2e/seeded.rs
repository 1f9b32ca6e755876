//! The seeded operators as processes, and `setpoint prove` on them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Missing;
use crate::run;

/// An operator with seeded bugs: its program, and how it is told its bug.
pub struct Subject {
    /// The name in reports.
    pub name: &'static str,
    program: PathBuf,
    /// Returns the last flags of `setpoint prove`.
    arguments: fn(u8) -> Vec<String>,
}

/// The end of one proof.
pub struct Proof {
    /// The exit code.
    pub code: Option<i32>,
    /// Everything that was printed.
    pub text: String,
}

impl Proof {
    /// Returns the number that stands before a word in the summary.
    pub fn number(&self, word: &str) -> Option<f64> {
        let summary = self.text.lines().find(|line| line.contains(" finding") && line.contains("; "))?;
        let words: Vec<&str> = summary.split([' ', ',', ';']).filter(|text| !text.is_empty()).collect();
        let place = words.iter().position(|text| text.trim_end_matches('s') == word)?;
        words.get(place.checked_sub(1)?)?.parse().ok()
    }
}

/// Builds the subject in Go.
pub fn go(folder: &Path) -> Result<Subject> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let program = folder.join("seeded-go");
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/seeded-go")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program))?;
    Ok(Subject { name: "go", program, arguments: |bug| vec!["--".into(), format!("--bug={bug}")] })
}

/// Installs the packages of the subject in Python. They stay in `target` until their list changes.
pub fn python() -> Result<Subject> {
    let python = run::found("python3").ok_or_else(|| Missing("python3 is not on the search path".into()))?;
    let folder = run::root().join("target/seeded-python");
    let list = run::root().join("peers/seeded-python/requirements.txt");
    let (wanted, installed) = (std::fs::read_to_string(&list)?, folder.join("installed.txt"));
    if std::fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run::check(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut install = Command::new(folder.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&list);
        run::check(&mut install).map_err(|error| Missing(format!("the packages in Python: {error:#}")))?;
        std::fs::write(&installed, &wanted)?;
    }
    let arguments = |bug| {
        let store = run::root().join("peers/seeded-python/store.py");
        let run = ["run", "--standalone", "--namespace=default"].map(str::to_owned);
        [vec![format!("--env=BUG={bug}"), "--".into()], run.to_vec(), vec![store.display().to_string()]]
            .concat()
    };
    Ok(Subject { name: "python", program: folder.join("bin/kopf"), arguments })
}

/// Writes the definition of the kind, as the subject in Rust prints it, to `crd.json`.
pub fn write_definition(folder: &Path) -> Result<()> {
    std::fs::write(folder.join("crd.json"), printed("seeded-operator", &["--definition"])?)?;
    Ok(())
}

/// Returns what a program of the seeded operator prints.
pub fn printed(program: &str, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut cargo = run::cargo();
    cargo.current_dir(run::root()).args(["run", "--quiet", "-p", "seeded-operator", "--bin", program, "--"]);
    let printed = cargo.args(arguments).output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Ok(printed.stdout)
}

/// Proves a subject with a bug, or without one (0). `folder` has the definition and the life `life.yaml`.
pub fn prove(setpoint: &Path, folder: &Path, subject: &Subject, bug: u8, flags: &[&str]) -> Result<Proof> {
    let mut command = Command::new(setpoint);
    let program = format!("{}={}", subject.name, subject.program.display());
    command.current_dir(folder).args(["prove", "--manifests=crd.json", "--life=life.yaml"]);
    command.args(flags).args(["--program", &program]).args((subject.arguments)(bug));
    let output = command.output().context("setpoint prove")?;
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok(Proof { code: output.status.code(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_summary_are_read() {
        let text =
            "  0 s  the undisturbed life\ngo: 1 finding in 2 steps, 31 runs; 14 plans in 12.3 s\n".into();
        let proof = Proof { code: Some(1), text };
        assert_eq!((proof.number("run"), proof.number("plan")), (Some(31.0), Some(14.0)));
        assert_eq!(proof.number("bug"), None);
    }
}
