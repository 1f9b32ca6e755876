//! Shortens the life of a finding: later steps are cut off, earlier ones left out one by one.

use std::collections::BTreeSet;

use setpoint_cluster::Checkpoint;
use setpoint_prove::engine::{Reference, resolve};
use setpoint_prove::{Finding, Plan, Step};

use crate::runs::{Failure, Runs, Undisturbed, last_step};

/// Returns the shortest life that shows a finding, with the plan in it.
///
/// # Errors
/// If the proof is stopped.
pub fn shrink(
    runs: &Runs,
    base: &Checkpoint,
    life: &[Step],
    plan: &Plan,
    finding: &Finding,
    late: impl Fn() -> bool,
) -> Result<(Vec<Step>, Plan), Failure> {
    // A run begins at the checkpoint of its step and ends with it, so later steps have no part in it.
    let mut best = (life[..=last_step(plan)].to_vec(), plan.clone());
    let mut index = plan.step - 1;
    while index > 0 && !late() {
        index -= 1;
        let mut shorter = best.0.clone();
        shorter.remove(index);
        let moved = Plan { step: best.1.step - 1, at: best.1.at.clone() };
        if shows(runs, base, &shorter, &moved, finding)? {
            best = (shorter, moved);
        }
    }
    Ok(best)
}

/// Returns whether a life shows a finding. A life that the server refuses shows nothing.
fn shows(
    runs: &Runs,
    base: &Checkpoint,
    life: &[Step],
    plan: &Plan,
    finding: &Finding,
) -> Result<bool, Failure> {
    match reference(runs, base, life, plan) {
        Ok(Some(reference)) => {
            let attempt = runs.attempt(&reference, plan, runs.suspicion, &mut BTreeSet::new());
            match attempt {
                Ok(attempt) => Ok(attempt.findings.iter().any(|other| other.is_like(finding))),
                Err(Failure::Run(_)) => Ok(false),
                Err(stopped) => Err(stopped),
            }
        }
        Ok(None) | Err(Failure::Run(_)) => Ok(false),
        Err(stopped) => Err(stopped),
    }
}

/// Lives a life once: enough to compare the place of a known finding. `None` if it does not get to its end.
fn reference(
    runs: &Runs,
    base: &Checkpoint,
    life: &[Step],
    plan: &Plan,
) -> Result<Option<Reference>, Failure> {
    let actions = resolve(base, life)?;
    let whole = Undisturbed {
        life: &actions,
        from: base,
        first: 0,
        count: actions.len(),
        jitter: None,
        asleep: false,
        ready: None,
        patience: runs.suspicion,
    };
    let (outcomes, _) = runs.undisturbed(&whole)?;
    if outcomes.len() < actions.len() || outcomes.iter().any(|outcome| outcome.unrest.is_some()) {
        return Ok(None);
    }
    let mut joined = vec![None; outcomes.len()];
    let (first, last) = (plan.step - 1, last_step(plan));
    if last > first {
        let from = if first == 0 { base } else { &outcomes[first - 1].checkpoint };
        let both = Undisturbed { from, first, count: 1, asleep: true, ..whole.clone() };
        joined[last] = runs.undisturbed(&both)?.0.pop();
    }
    Ok(Some(Reference::of(base, actions, outcomes, &[], joined)))
}
