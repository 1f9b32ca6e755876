//! `setpoint prove`: the convergence bugs of an operator that is a process.

mod arguments;
mod progress;
mod results;

use std::process::ExitCode;

use anyhow::{Context, Result};
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
            eprintln!("setpoint prove: {error:#}");
            ExitCode::from(WRONG_USE)
        }
    }
}

fn prove(arguments: &Arguments) -> Result<Proved> {
    let (proof, replay) = arguments.proof()?;
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
