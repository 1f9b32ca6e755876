//! The life and the fault that wake each bug, and the oracle that sees it.

use seeded_operator::Bug;
use setpoint_prove::{Anchor, Fault, Oracle, Plan, Step};

use crate::lives::{
    break_and_mend, come_again, come_and_go, grow, lessen, pair, resize, shrink_and_grow, there_and_back,
};

const STATUS: &str = "stores.seeded.example.org/status";
const STORES: &str = "stores.seeded.example.org";
const SETS: &str = "statefulsets.apps";
const CLAIMS: &str = "persistentvolumeclaims";
const BUDGETS: &str = "poddisruptionbudgets.policy";

fn write(verb: &str, resource: &str, name: &str, nth: usize) -> Anchor {
    Anchor { verb: verb.into(), resource: resource.into(), name: name.into(), nth }
}

fn crash_after(step: usize, verb: &str, resource: &str, name: &str, nth: usize) -> Plan {
    Plan { step, at: Fault::CrashAfter { write: write(verb, resource, name, nth) } }
}

fn early(resource: &str, name: &str) -> Plan {
    Plan { step: 1, at: Fault::NextStep { write: write("PATCH", resource, name, 1) } }
}

fn bystander(step: usize, verb: &str, resource: &str) -> Plan {
    Plan { step, at: Fault::Bystander { write: write(verb, resource, "a", 1) } }
}

/// A restart on the state after some commits of a step. The stores catch up last.
fn stale(step: usize, commits: usize, steps: usize) -> Plan {
    let order = ["configmaps", CLAIMS, BUDGETS, "secrets", "services", SETS, STORES];
    let order = order.map(str::to_owned).to_vec();
    Plan { step, at: Fault::StaleRestart { commits, order, steps } }
}

/// Returns the life, the plan and the oracle of a bug. `None`: the undisturbed life shows it.
pub fn plan(bug: Bug) -> (Vec<Step>, Option<Plan>, Oracle) {
    undisturbed(bug).unwrap_or_else(|| disturbed(bug))
}

/// Returns the life of a bug that needs no fault.
fn undisturbed(bug: Bug) -> Option<(Vec<Step>, Option<Plan>, Oracle)> {
    let (life, oracle) = match bug {
        Bug::ChildrenBeforeDeletion | Bug::Timestamp => (come_and_go(), Oracle::Rest),
        Bug::NoOwner | Bug::DeletionWaitsForItself => (come_and_go(), Oracle::Residue),
        Bug::LabelsOnlyAdded | Bug::MonitorStays => (there_and_back(), Oracle::WayBack),
        Bug::NotPassedOn => (resize(), Oracle::Effect),
        Bug::OnlyReady => (break_and_mend(), Oracle::Recovery),
        Bug::Unwrap => (grow(), Oracle::Panic),
        _ => return None,
    };
    Some((life, None, oracle))
}

fn disturbed(bug: Bug) -> (Vec<Step>, Option<Plan>, Oracle) {
    let (life, plan) = match bug {
        Bug::FirstSecretGuardsBoth => (grow(), crash_after(1, "PATCH", "secrets", "a-internal", 1)),
        Bug::NoteBeforeThing => (grow(), crash_after(2, "PATCH", SETS, "a", 1)),
        Bug::ConfigBeforeMark => (grow(), crash_after(2, "PATCH", "configmaps", "a-config", 1)),
        Bug::TwoStatusWrites => (grow(), crash_after(1, "PATCH", STATUS, "a", 1)),
        Bug::PhaseInMemory => (grow(), crash_after(1, "PATCH", "secrets", "a-internal", 1)),
        Bug::DeleteThenCreate => (grow(), crash_after(2, "DELETE", SETS, "a", 1)),
        Bug::LabelSteps => (grow(), crash_after(1, "PATCH", SETS, "a", 2)),
        Bug::GeneratedName => (grow(), crash_after(1, "POST", "configmaps", "a-member-*", 1)),
        Bug::CounterThenNote => (grow(), crash_after(1, "PATCH", "configmaps", "a-serial", 1)),
        Bug::CountedInCache | Bug::LaggingCache => {
            let write = write("POST", "configmaps", "a-member-*", 1);
            (grow(), Plan { step: 1, at: Fault::LostAnswer { write } })
        }
        Bug::SeenTerminating => {
            (lessen(), Plan { step: 2, at: Fault::Gap { resource: "pods".into(), event: 1, seconds: 6 } })
        }
        Bug::EventDifference => (grow(), crash_after(2, "PATCH", SETS, "a", 1)),
        Bug::OwnEventFiltered => (grow(), early(SETS, "a")),
        Bug::LateFinalizer => (come_and_go(), early(CLAIMS, "a-0")),
        Bug::SharedCounter => (pair(), Plan { step: 2, at: Fault::Restart }),
        Bug::FirstSeen => (grow(), crash_after(1, "PATCH", STORES, "a", 1)),
        Bug::FirstOfList => (pair(), crash_after(2, "PATCH", "secrets", "a-internal", 1)),
        Bug::HalfRollover => (grow(), crash_after(2, "PATCH", "secrets", "a-internal", 1)),
        Bug::GuardedByOther => {
            (shrink_and_grow(), Plan { step: 2, at: Fault::Unseen { resource: "configmaps".into() } })
        }
        Bug::SwallowedConflict => (resize(), bystander(2, "PUT", STATUS)),
        _ => return seldom(bug),
    };
    (life, Some(plan), Oracle::Convergence)
}

/// Returns the plans of bugs that show in something else than the end state.
fn seldom(bug: Bug) -> (Vec<Step>, Option<Plan>, Oracle) {
    let (life, plan, oracle) = match bug {
        Bug::ClaimsByLabel => (come_again(), stale(2, 1, 2), Oracle::Identity),
        Bug::TerminatingByName => (shrink_and_grow(), stale(2, 6, 2), Oracle::Identity),
        Bug::DisabledByName => (grow(), stale(2, 0, 1), Oracle::Identity),
        Bug::OtherSizeDeletes => (grow(), stale(2, 0, 1), Oracle::Identity),
        Bug::BudgetAnew => (grow(), stale(2, 0, 1), Oracle::Identity),
        Bug::OwnGarbage => (grow(), stale(1, 0, 1), Oracle::Identity),
        Bug::OrphansByStatus => (shrink_and_grow(), stale(2, 7, 2), Oracle::Identity),
        Bug::WholeStatus => (grow(), bystander(2, "PATCH", STATUS), Oracle::LostUpdate),
        Bug::BlindUpdate => (grow(), bystander(2, "PUT", "services"), Oracle::LostUpdate),
        Bug::DeletesAgain => {
            let write = write("DELETE", CLAIMS, "a-0", 1);
            (come_and_go(), Plan { step: 2, at: Fault::SlowDeletion { write } }, Oracle::Rest)
        }
        other => panic!("{other:?} has no plan"),
    };
    (life, Some(plan), oracle)
}
