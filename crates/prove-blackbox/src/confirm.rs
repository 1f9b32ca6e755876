//! Confirmation: a suspicion becomes a finding if it comes again each time, and never without the fault.

use std::collections::BTreeSet;

use setpoint_prove::engine::{Outcome, Reference, of_run};
use setpoint_prove::{Fault, Finding, Oracle, Plan};

use crate::log::Log;
use crate::runs::{Failure, Runs, Undisturbed, last_step};

/// Times that a finding must come again.
const CONFIRMATIONS: usize = 3;

/// A confirmed finding: the run that showed it, and its log.
pub struct Confirmed {
    /// The last repetition.
    pub outcome: Outcome,
    /// The output of the process.
    pub log: Log,
}

/// Runs a plan three times with the whole patience, and the same steps once without the fault. Returns `None` if a
/// repetition does not show the finding, or if the run without the fault shows it too.
///
/// # Errors
/// If the proof is stopped.
pub fn confirm(
    runs: &Runs,
    reference: &Reference,
    plan: &Plan,
    finding: &Finding,
) -> Result<Option<Confirmed>, Failure> {
    std::thread::scope(|scope| -> Result<Option<Confirmed>, Failure> {
        let again = || runs.attempt(reference, plan, runs.bounds.patience, &mut BTreeSet::new());
        let repetitions: Vec<_> = (0..CONFIRMATIONS).map(|_| scope.spawn(again)).collect();
        let control = scope.spawn(|| without_fault(runs, reference, plan));
        let mut confirmed = None;
        let mut every = true;
        for repetition in repetitions {
            let attempt = repetition.join().map_err(|_| Failure::Stopped)??;
            every &= attempt.findings.iter().any(|other| other.is_like(finding));
            confirmed = attempt.outcome.map(|outcome| Confirmed { outcome, log: attempt.log });
        }
        let control = control.join().map_err(|_| Failure::Stopped)??;
        let judged = control.map(|outcome| of_run(reference, &runs.statements, &outcome, plan));
        let alone = judged.is_some_and(|found| found.iter().any(|other| other.is_like(finding)));
        Ok(confirmed.filter(|_| every && !alone))
    })?
    .map_or(Ok(None), |confirmed| {
        let meant =
            finding.oracle == Oracle::LostUpdate && means_to(runs, reference, plan, &confirmed.outcome)?;
        Ok(Some(confirmed).filter(|_| !meant))
    })
}

/// Returns whether the operator also removes a mark that it has seen before the step.
fn means_to(runs: &Runs, reference: &Reference, plan: &Plan, outcome: &Outcome) -> Result<bool, Failure> {
    let Some(mark) = outcome.lost.clone() else { return Ok(false) };
    let at = Fault::Marked { path: mark.path, condition: mark.condition };
    let control = Plan { step: plan.step, at };
    let attempt = runs.attempt(reference, &control, runs.bounds.patience, &mut BTreeSet::new())?;
    Ok(attempt.outcome.is_none_or(|outcome| outcome.lost.is_some()))
}

/// Runs the steps of a plan without its fault. For a restart at rest that is the whole life up to the step.
fn without_fault(runs: &Runs, reference: &Reference, plan: &Plan) -> Result<Option<Outcome>, Failure> {
    let last = last_step(plan);
    let first = if plan.at == Fault::Restart { 0 } else { plan.step - 1 };
    let steps = Undisturbed {
        life: &reference.life,
        from: &reference.starts[first],
        first,
        count: last + 1 - first,
        jitter: None,
        asleep: false,
        ready: Some(&reference.ready),
        patience: runs.bounds.patience,
    };
    let (mut outcomes, _) = runs.undisturbed(&steps)?;
    Ok(outcomes.pop().filter(|outcome| outcome.step == last))
}
