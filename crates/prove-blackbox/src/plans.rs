//! The plans of a step for a process, whose time is the machine's.

use setpoint_prove::engine::{Outcome, Reference, further_faults, second_crashes, single_faults};
use setpoint_prove::{Fault, Plan, Settings};

/// The length of a gap in the watches of a kind, in seconds.
const GAP: u64 = 2;

/// Returns the single faults of a step, from the record of the step without one.
pub fn faults(baseline: &Outcome, reference: &Reference, step: usize, settings: &Settings) -> Vec<Fault> {
    let more = step < reference.outcomes.len();
    let mut faults = single_faults(baseline, more, settings);
    // Hours cannot be waited for, and the clock of a process is the machine's.
    let further = further_faults(baseline, reference, step - 1, 0).into_iter();
    faults.extend(further.filter_map(|fault| match fault {
        Fault::Idle { .. } | Fault::ClockJump { .. } => None,
        Fault::Gap { resource, event, .. } => Some(Fault::Gap { resource, event, seconds: GAP }),
        fault => Some(fault),
    }));
    faults
}

/// Returns the crashes in the recovery from the crashes that have run.
pub fn deeper(outcomes: &[(Plan, Outcome)]) -> Vec<Plan> {
    outcomes.iter().flat_map(|(plan, outcome)| second_crashes(plan, outcome)).collect()
}

/// Says which faults are not tried, and why.
pub fn notes(reference: &Reference, watch_list: bool) -> Vec<String> {
    let mut notes = vec![
        "idle time, clock jump: not possible with a process".to_owned(),
        "two replicas, webhook outage: not tried with a process yet".to_owned(),
    ];
    let cached = reference.outcomes.iter().any(|outcome| !outcome.cached.is_empty());
    match (watch_list, cached) {
        (_, true) => {}
        (true, false) => notes.push(
            "stale restart: not possible, a first state by WatchList or without a version is never old; \
             `--server-like 1.31` tries an older server"
                .to_owned(),
        ),
        (false, false) => {
            notes.push("stale restart: not possible, the operator begins with the newest state".to_owned());
        }
    }
    notes
}
