//! The undisturbed life, from which all runs begin and to which they are compared.

use std::time::Duration;

use setpoint_cluster::Checkpoint;
use setpoint_prove::engine::{Outcome, Reference, of_reference, resolve};
use setpoint_prove::{Finding, Oracle, Step};

use crate::log::Log;
use crate::runs::{Failure, Patience, Runs, Undisturbed};
use crate::workers::run_all;

/// Undisturbed lives: one without delays, and two with benign delays of each message.
const LIVES: [Option<u64>; REFERENCES] = [None, Some(1_001), Some(1_002)];
/// The shortest rest after which a run is judged.
const LEAST: Duration = Duration::from_secs(1);
/// A run is judged after a rest of so many of the longest pauses of the undisturbed operator.
const PAUSES: u32 = 3;
/// Lines of the operator's output that an error shows.
const TAIL: usize = 10;
/// The number of undisturbed lives.
pub const REFERENCES: usize = 3;

/// The reason why there is no undisturbed life.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The operator ends by itself.
    #[error("the operator does not stay up: {0}")]
    Ends(String),
    /// The operator asks for nothing.
    #[error("the operator asks for nothing")]
    Silent {
        /// The time that it had.
        after: Duration,
        /// The end of its output.
        output: String,
    },
    /// The operator writes nothing.
    #[error("the operator writes nothing")]
    Idle(String),
    /// A run failed.
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// The undisturbed life, judged.
pub struct Lived {
    /// The life.
    pub reference: Reference,
    /// The contradictions.
    pub findings: Vec<Finding>,
    /// The rest after which runs with faults are judged.
    pub patience: Patience,
}

/// Lives the undisturbed life three times, and judges it. A suspicion must come again with the whole patience.
pub fn reference(runs: &Runs, base: &Checkpoint, steps: &[Step]) -> Result<Lived, ReferenceError> {
    let life = resolve(base, steps).map_err(Failure::Run)?;
    let ready;
    let mut whole = Undisturbed {
        life: &life,
        from: base,
        first: 0,
        count: life.len(),
        jitter: None,
        asleep: false,
        ready: None,
        patience: runs.suspicion,
    };
    let mut reference = live(runs, base, &whole)?;
    let mut patience = patience(runs, &reference);
    let mut findings = of_reference(&reference, &runs.statements);
    // More patience does not undo a panic, and an operator that never rests does not rest with it.
    let certain = |finding: &Finding| matches!(finding.oracle, Oracle::Rest | Oracle::Panic);
    let suspected = !findings.is_empty() && !findings.iter().any(certain);
    if suspected || (findings.is_empty() && patience.suspicion > runs.suspicion) {
        ready = reference.ready.clone();
        whole.patience = if suspected { patience.confirmation } else { patience.suspicion };
        whole.ready = Some(&ready);
        reference = live(runs, base, &whole)?;
        patience = self::patience(runs, &reference);
        findings = of_reference(&reference, &runs.statements);
    }
    if findings.is_empty() {
        whole.patience = patience.suspicion;
        reference.joined = join(runs, &whole, &reference.outcomes)?;
    }
    Ok(Lived { reference, findings, patience })
}

/// Returns how patient runs must be for an operator that waits as this one does.
fn patience(runs: &Runs, reference: &Reference) -> Patience {
    let pause = reference.outcomes.iter().map(|outcome| outcome.pause).max().unwrap_or_default();
    let suspicion = (pause * PAUSES).max(LEAST).min(runs.bounds.patience);
    let confirmation = runs.bounds.patience.max(suspicion * 2);
    Patience { pause, suspicion, confirmation }
}

/// Lives a life three times side by side.
fn live(runs: &Runs, base: &Checkpoint, whole: &Undisturbed<'_>) -> Result<Reference, ReferenceError> {
    let mut lives: Vec<Vec<Outcome>> = vec![Vec::new(); LIVES.len()];
    let (mut failure, mut output) = (None, String::new());
    run_all(
        runs.bounds.jobs,
        LIVES.into_iter().enumerate(),
        || false,
        |(place, jitter)| (place, runs.undisturbed(&Undisturbed { jitter, ..whole.clone() })),
        |(place, lived)| match lived {
            Ok((outcomes, written)) => {
                lives[place] = outcomes;
                if place == 0 {
                    output = last_words(&written);
                }
            }
            Err(error) => failure = Some(error),
        },
    );
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    let outcomes = lives.remove(0);
    if let Some(exit) = outcomes.first().and_then(|first| first.exits.first()) {
        return Err(ReferenceError::Ends(exit.clone()));
    }
    check_that_it_works(runs, whole, &outcomes, output)?;
    let joined = vec![None; outcomes.len()];
    Ok(Reference::of(base, whole.life.to_vec(), outcomes, &lives, joined))
}

fn last_words(log: &Log) -> String {
    let tail = log.tail(TAIL);
    if tail.is_empty() { "it printed nothing".to_owned() } else { tail.join("\n    ") }
}

/// An operator that does nothing would pass every proof.
fn check_that_it_works(
    runs: &Runs,
    whole: &Undisturbed<'_>,
    outcomes: &[Outcome],
    output: String,
) -> Result<(), ReferenceError> {
    if outcomes.iter().all(|outcome| outcome.sent.is_empty() && outcome.watched.is_empty()) {
        return Err(ReferenceError::Silent { after: runs.settings(whole.patience).pace.start, output });
    }
    let works = |outcome: &Outcome| {
        outcome.woke.len() + outcome.sent.iter().filter(|sent| sent.call.is_work()).count()
    };
    match outcomes.iter().all(|outcome| works(outcome) == 0) {
        true => Err(ReferenceError::Idle(output)),
        false => Ok(()),
    }
}

/// Lets the operator sleep through each pair of steps.
fn join(
    runs: &Runs,
    whole: &Undisturbed<'_>,
    outcomes: &[Outcome],
) -> Result<Vec<Option<Outcome>>, ReferenceError> {
    let mut joined = vec![None; outcomes.len()];
    let mut failure = None;
    run_all(
        runs.bounds.jobs,
        0..outcomes.len().saturating_sub(1),
        || false,
        |first| {
            let from = if first == 0 { whole.from } else { &outcomes[first - 1].checkpoint };
            (first, runs.undisturbed(&Undisturbed { from, first, count: 1, asleep: true, ..whole.clone() }))
        },
        |(first, slept)| match slept {
            Ok((mut outcomes, _)) => joined[first + 1] = outcomes.pop(),
            Err(error) => failure = Some(error),
        },
    );
    failure.map_or(Ok(joined), |failure| Err(failure.into()))
}
