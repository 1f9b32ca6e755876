//! The plans of a step for a process, whose time is the machine's.

use std::collections::BTreeMap;

use setpoint_prove::engine::{Outcome, Reference, further_faults, second_crashes, single_faults};
use setpoint_prove::{Fault, Plan, Settings};

/// Multiples of the stride, modulo the scale, are spread evenly: their ratio is the golden one.
const STRIDE: usize = 61_803;
/// See [`STRIDE`].
const SCALE: usize = 100_000;
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

/// Orders plans so that a budget that ends early has tried some of each kind, in all parts of the life. Crashes after a
/// write come first: they find the most.
pub fn spread(plans: Vec<Plan>) -> Vec<Plan> {
    let mut kinds: BTreeMap<&'static str, Vec<Plan>> = BTreeMap::new();
    let mut first = Vec::new();
    for plan in plans {
        match plan.at {
            Fault::CrashAfter { .. } => first.push(plan),
            _ => kinds.entry(plan.at.kind()).or_default().push(plan),
        }
    }
    let mut rest: Vec<(usize, Plan)> = Vec::new();
    for plans in kinds.into_values() {
        let count = plans.len();
        let mut places: Vec<(usize, Plan)> =
            plans.into_iter().enumerate().map(|(place, plan)| (place * STRIDE % SCALE, plan)).collect();
        places.sort_by_key(|(place, _)| *place);
        let share = |place: usize| (2 * place + 1) * SCALE / (2 * count);
        rest.extend(places.into_iter().enumerate().map(|(place, (_, plan))| (share(place), plan)));
    }
    rest.sort_by_key(|(share, _)| *share);
    first.into_iter().chain(rest.into_iter().map(|(_, plan)| plan)).collect()
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

#[cfg(test)]
mod tests {
    use setpoint_prove::Anchor;

    use super::*;

    #[test]
    fn a_part_of_the_plans_has_a_part_of_each_kind_in_all_steps() {
        let write = Anchor { verb: "PUT".into(), resource: "secrets".into(), name: "a".into(), nth: 1 };
        let mut plans = Vec::new();
        for step in 1..=20 {
            plans.push(Plan { step, at: Fault::Unseen { resource: "secrets".into() } });
            plans.push(Plan { step, at: Fault::Reset { write: write.clone() } });
            plans.push(Plan { step, at: Fault::CrashAfter { write: write.clone() } });
        }
        let ordered = spread(plans.clone());
        assert_eq!(ordered.len(), plans.len());
        assert!(plans.iter().all(|plan| ordered.contains(plan)));
        let (first, rest) = ordered.split_at(20);
        assert!(first.iter().all(|plan| matches!(plan.at, Fault::CrashAfter { .. })));
        let half = &rest[..20];
        let of =
            |kind: &'static str| half.iter().filter(move |plan| plan.at.kind() == kind).map(|plan| plan.step);
        for kind in ["unseen step", "connection reset"] {
            assert_eq!(of(kind).count(), 10, "{kind}");
            assert_eq!(of(kind).filter(|step| *step <= 10).count(), 5, "{kind}");
        }
    }
}
