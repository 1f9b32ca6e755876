//! The proof that all tests use, and the lives.

use std::time::Duration;

use seeded_operator::{Bug, NAME, definition, register};
use serde_json::{Value, json};
use setpoint_cluster::Controllers;
use setpoint_prove::{Prove, Step, Subject, prove};

/// The operator with a bug, or without. `late`: it begins with what the server's cache has.
pub fn subject(bug: Option<Bug>, late: bool) -> Subject {
    let options = move |options: &mut setpoint::ManagerOptions| options.consistent_start = !late;
    Subject::manager_with(NAME, vec![definition()], options, move |manager| register(manager, bug))
}

/// A proof on a cluster without pods: no controller of it acts on what the operator makes, but for deletions.
pub fn proof(bug: Option<Bug>, late: bool) -> Prove {
    let proof = prove(subject(bug, late)).settings(|settings| {
        // The longest back-off of this operator is short, and it runs often in these tests.
        settings.patience = Duration::from_secs(60);
        settings.settle = Duration::from_secs(5);
        settings.limit = Duration::from_secs(30 * 60);
        settings.writes = 300;
        settings.shrink = false;
    });
    let pods = matches!(bug, Some(Bug::OnlyReady | Bug::SeenTerminating));
    proof.cluster(move |options| {
        let mut controllers = vec!["garbage", "persistentvolumeclaim-protection"];
        if pods {
            controllers.extend(["statefulset", "scheduler", "serviceaccount"]);
        }
        options.controllers = Controllers::Only(controllers.into_iter().map(str::to_owned).collect());
        options.nodes.count = u32::from(pods);
    })
}

/// A store.
pub fn store(name: &str, spec: Value) -> Value {
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

/// A life as steps that apply.
fn applied(lives: &[Value]) -> Vec<Step> {
    lives.iter().cloned().map(Step::Apply).collect()
}

fn delete() -> Step {
    Step::Delete { name: "a".into() }
}

/// There, back, and away.
pub fn there_and_back() -> Vec<Step> {
    let mut steps = applied(&[small(), large(), small()]);
    steps.push(delete());
    steps
}

/// Small, then large.
pub fn grow() -> Vec<Step> {
    applied(&[small(), large()])
}

/// Large, small, and large again.
pub fn shrink_and_grow() -> Vec<Step> {
    applied(&[large(), small(), large()])
}

/// Large, then small.
pub fn lessen() -> Vec<Step> {
    applied(&[large(), small()])
}

/// Made and deleted.
pub fn come_and_go() -> Vec<Step> {
    vec![Step::Apply(small()), delete()]
}

/// Made, deleted, and made again.
pub fn come_again() -> Vec<Step> {
    vec![Step::Apply(small()), delete(), Step::Apply(small())]
}

/// Two stores.
pub fn pair() -> Vec<Step> {
    applied(&[store("b", json!({"replicas": 1, "size": "1Gi"})), small()])
}

/// Another size, and nothing else.
pub fn resize() -> Vec<Step> {
    vec![Step::Apply(small()), Step::Patch { name: "a".into(), patch: json!({"spec": {"size": "15Gi"}}) }]
}

/// Broken and mended.
pub fn break_and_mend() -> Vec<Step> {
    let broken = store("a", json!({"replicas": 1, "size": "10Gi", "config": "broken"}));
    applied(&[small(), broken, small()])
}
