//! The undisturbed life, from which all runs begin and to which they are compared.

use std::time::Duration;

use setpoint_cluster::Checkpoint;
use setpoint_prove::engine::{Outcome, Reference, of_reference, resolve};
use setpoint_prove::{Finding, Oracle, Step};

use crate::runs::{Failure, Runs, Undisturbed};
use crate::workers::run_all;

/// Undisturbed lives: one without delays, and two with benign delays of each message.
const LIVES: [Option<u64>; REFERENCES] = [None, Some(1_001), Some(1_002)];
/// The number of undisturbed lives.
pub const REFERENCES: usize = 3;

/// The reason why there is no undisturbed life.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The operator ends by itself.
    #[error("the operator does not stay up: {0}")]
    Ends(String),
    /// A run failed.
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// Lives the undisturbed life three times, and judges it. A suspicion must come again with the whole patience.
pub fn reference(
    runs: &Runs,
    base: &Checkpoint,
    steps: &[Step],
) -> Result<(Reference, Vec<Finding>), ReferenceError> {
    let reference = live(runs, base, steps, runs.suspicion())?;
    let suspicions = of_reference(&reference, &runs.statements);
    // An operator that never rests does not do so with more patience.
    if suspicions.is_empty() || suspicions.iter().any(|finding| finding.oracle == Oracle::Rest) {
        return Ok((reference, suspicions));
    }
    let patient = live(runs, base, steps, runs.bounds.patience)?;
    let findings = of_reference(&patient, &runs.statements);
    Ok((patient, findings))
}

fn live(
    runs: &Runs,
    base: &Checkpoint,
    steps: &[Step],
    patience: Duration,
) -> Result<Reference, ReferenceError> {
    let life = resolve(base, steps).map_err(Failure::Run)?;
    let whole = Undisturbed {
        life: &life,
        from: base,
        first: 0,
        count: life.len(),
        jitter: None,
        asleep: false,
        ready: None,
        patience,
    };
    let mut lives: Vec<Vec<Outcome>> = vec![Vec::new(); LIVES.len()];
    let mut failure = None;
    run_all(
        runs.bounds.jobs,
        LIVES.into_iter().enumerate(),
        || false,
        |(place, jitter)| (place, runs.undisturbed(&Undisturbed { jitter, ..whole.clone() })),
        |(place, lived)| match lived {
            Ok((outcomes, _)) => lives[place] = outcomes,
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
    if outcomes.iter().any(|outcome| outcome.unrest.is_some()) {
        let joined = vec![None; outcomes.len()];
        return Ok(Reference::of(base, life, outcomes, &lives, joined));
    }
    let joined = join(runs, &whole, &outcomes)?;
    Ok(Reference::of(base, life, outcomes, &lives, joined))
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
