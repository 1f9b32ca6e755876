//! The yardstick: proofs find every seeded bug, and nothing in the sound operator.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use seeded_operator::{Bug, NAME, definition, register};
use serde_json::{Value, json};
use setpoint_cluster::Controllers;
use setpoint_prove::{Anchor, Fault, Oracle, Plan, PlanFile, Prove, Step, Subject, prove};

fn subject(bug: Option<Bug>) -> Subject {
    Subject::manager(NAME, vec![definition()], move |manager| register(manager, bug))
}

/// A proof on a cluster without pods: no controller of it acts on what the operator makes, but for deletions.
fn proof(bug: Option<Bug>) -> Prove {
    let proof = prove(subject(bug)).settings(|settings| {
        // The longest back-off of this operator is short, and it runs often in these tests.
        settings.patience = Duration::from_secs(60);
        settings.settle = Duration::from_secs(5);
        settings.limit = Duration::from_secs(30 * 60);
        settings.writes = 300;
        settings.shrink = false;
    });
    proof.cluster(|options| {
        let controllers = ["garbage", "persistentvolumeclaim-protection"];
        options.controllers = Controllers::Only(controllers.map(str::to_owned).to_vec());
        options.nodes.count = 0;
    })
}

fn store(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "seeded.example.org/v1", "kind": "Store", "metadata": {"name": name}, "spec": spec,
    })
}

fn small() -> Value {
    store("a", json!({"replicas": 1, "size": "10Gi", "config": "one"}))
}

fn large() -> Value {
    store("a", json!({"replicas": 2, "size": "15Gi", "labels": {"tier": "gold"}, "monitor": true}))
}

/// There, back, and away.
fn life(bug: Option<Bug>) -> Prove {
    proof(bug).apply(small()).apply(large()).apply(small()).delete("a")
}

/// Two stores, for bugs that one does not show.
fn two(bug: Option<Bug>) -> Prove {
    proof(bug).apply(store("b", json!({"replicas": 1, "size": "1Gi"}))).apply(small())
}

#[test]
fn the_sound_operator_has_no_finding() {
    let report = life(None).check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!((report.unconfirmed, report.masked), (0, 0));
    two(None).check();
}

/// A life as the steps of a plan file.
fn steps(lives: &[Value]) -> Vec<Step> {
    lives.iter().cloned().map(Step::Apply).collect()
}

fn there_and_back() -> Vec<Step> {
    let mut steps = steps(&[small(), large(), small()]);
    steps.push(Step::Delete { name: "a".into() });
    steps
}

fn grow() -> Vec<Step> {
    steps(&[small(), large()])
}

fn come_and_go() -> Vec<Step> {
    vec![Step::Apply(small()), Step::Delete { name: "a".into() }]
}

fn pair() -> Vec<Step> {
    steps(&[store("b", json!({"replicas": 1, "size": "1Gi"})), small()])
}

fn write(verb: &str, resource: &str, name: &str, nth: usize) -> Anchor {
    Anchor { verb: verb.into(), resource: resource.into(), name: name.into(), nth }
}

const STATUS: &str = "stores.seeded.example.org/status";
const SETS: &str = "statefulsets.apps";
const CLAIMS: &str = "persistentvolumeclaims";

/// The life and the fault that wake a bug, with the oracle that sees it.
fn plan(bug: Bug) -> (Vec<Step>, Option<Plan>, Oracle) {
    let after = |step, verb: &str, resource: &str, name: &str, nth| {
        Some(Plan { step, at: Fault::CrashAfter { write: write(verb, resource, name, nth) } })
    };
    let early = |resource: &str, name: &str| {
        Some(Plan { step: 1, at: Fault::NextStep { write: write("PATCH", resource, name, 1) } })
    };
    let (life, plan) = match bug {
        Bug::FirstSecretGuardsBoth => (grow(), after(1, "PATCH", "secrets", "a-internal", 1)),
        Bug::NoteBeforeThing => (grow(), after(2, "PATCH", SETS, "a", 1)),
        Bug::ConfigBeforeMark => (grow(), after(2, "PATCH", "configmaps", "a-config", 1)),
        Bug::TwoStatusWrites => (grow(), after(1, "PATCH", STATUS, "a", 1)),
        Bug::PhaseInMemory => (grow(), after(1, "PATCH", "secrets", "a-internal", 1)),
        Bug::DeleteThenCreate => (grow(), after(2, "DELETE", SETS, "a", 1)),
        Bug::LabelSteps => (grow(), after(1, "PATCH", SETS, "a", 2)),
        Bug::GeneratedName => (grow(), after(1, "POST", "configmaps", "a-member-*", 1)),
        Bug::CounterThenNote => (grow(), after(1, "PATCH", "configmaps", "a-serial", 1)),
        Bug::CountedInCache | Bug::LaggingCache => {
            let write = write("POST", "configmaps", "a-member-*", 1);
            (grow(), Some(Plan { step: 1, at: Fault::LostAnswer { write } }))
        }
        Bug::EventDifference => (grow(), after(2, "PATCH", SETS, "a", 1)),
        Bug::OwnEventFiltered => (grow(), early(SETS, "a")),
        Bug::LateFinalizer => (come_and_go(), early(CLAIMS, "a-0")),
        Bug::SharedCounter => (pair(), Some(Plan { step: 2, at: Fault::Restart })),
        Bug::ChildrenBeforeDeletion | Bug::Timestamp => return (come_and_go(), None, Oracle::Rest),
        Bug::NoOwner | Bug::DeletionWaitsForItself => return (come_and_go(), None, Oracle::Residue),
        Bug::LabelsOnlyAdded | Bug::MonitorStays => return (there_and_back(), None, Oracle::WayBack),
        Bug::Unwrap => return (grow(), None, Oracle::Panic),
    };
    (life, plan, Oracle::Convergence)
}

#[test]
fn every_seeded_bug_is_found_by_its_plan() {
    for bug in Bug::ALL {
        let (life, plan, oracle) = plan(bug);
        let file = PlanFile { subject: NAME.into(), seed: 1, life, plan }.to_yaml();
        let report = proof(Some(bug)).replay(&file).unwrap();
        let Some(found) = report.findings.first() else { panic!("{bug:?} is not found:\n{file}\n{report}") };
        println!("{bug:?}: {}", found.headline);
        assert_eq!(found.oracle, oracle, "{bug:?}: {report}");
    }
}
