//! `setpoint prove`: the convergence bugs of an operator that is a process.

mod arguments;
mod progress;
mod results;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use setpoint_prove_blackbox::{Proof, ProofError, Proved};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub use arguments::Arguments;
use progress::Progress;

/// The exit code of wrong use, and of a proof that could not be made. Findings have 1.
const WRONG_USE: u8 = 2;

/// Proves, prints, and returns the exit code.
pub fn run(arguments: Arguments) -> ExitCode {
    match prove(&arguments) {
        Ok(proved) if proved.found.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("setpoint prove: {}", words(&error));
            ExitCode::from(WRONG_USE)
        }
    }
}

/// A report that cannot be written must not be found out after minutes.
fn can_be_written(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "cannot write {}: {} is no folder", file.display(), folder.display());
    ensure!(!file.is_dir(), "cannot write {}: it is a folder", file.display());
    Ok(())
}

/// Returns an error with its causes, each of them once: many errors repeat their cause.
fn words(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text
}

fn prove(arguments: &Arguments) -> Result<Proved> {
    let (proof, replay) = arguments.proof()?;
    for file in [&arguments.report, &arguments.junit].into_iter().flatten() {
        can_be_written(file)?;
    }
    let progress = Progress::default();
    let proved = until_interrupted(|stop| {
        let tell = |stage: setpoint_prove_blackbox::Stage<'_>| progress.tell(stage);
        match &replay {
            Some(plan) => proof.replay(plan.as_ref(), stop, &tell),
            None => proof.run(stop, &tell),
        }
    });
    progress.end();
    let proved = proved??;
    let written = match replay {
        Some(_) => Vec::new(),
        None => results::write(&proved, &arguments.folder).context("the plan files")?,
    };
    print!("{}", results::text(&proof, &proved, &written));
    if let Some(file) = &arguments.report {
        std::fs::write(file, proved.report.html())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &arguments.junit {
        std::fs::write(file, proved.report.junit())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(proved)
}

/// Runs a proof on a thread of its own, and stops it at Ctrl-C or SIGTERM.
fn until_interrupted(
    prove: impl FnOnce(&CancellationToken) -> Result<Proved, ProofError> + Send,
) -> Result<Result<Proved, ProofError>> {
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let _ended = ended.clone().drop_guard();
            prove(&stop)
        });
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => stop.cancel(),
                _ = terminate.recv() => stop.cancel(),
                () = ended.cancelled() => {}
            }
        });
        running.join().map_err(|_| anyhow::anyhow!("the proof panicked"))
    })
}

/// Returns the words for a number of things.
fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Returns the number of a step with what it does.
fn step(proof: &Proof, number: usize) -> String {
    let step = number.checked_sub(1).and_then(|index| proof.life.get(index));
    step.map_or(format!("step {number}"), |step| format!("step {number} ({step})"))
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn each_cause_of_an_error_is_printed_once() {
        let error = anyhow!("no such file").context("cannot read a: no such file").context("the manifests");
        assert_eq!(words(&error), "the manifests: cannot read a: no such file");
    }
}
