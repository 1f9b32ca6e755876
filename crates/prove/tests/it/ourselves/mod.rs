//! The built-in controllers have no findings: each alone is the operator under test, with a fixed seed and a fixed part
//! of the plans. `docs/prove.md` says what these proofs leave out.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use setpoint_cluster::{Controllers, Plugin};
use setpoint_controllers::{Options, TokenSigner};
use setpoint_prove::{Prove, Subject, prove};

mod nodes;
mod objects;
mod storage;
mod workloads;

/// Plans of one subject.
const PLANS: usize = 24;

/// The surroundings of a controller under test.
#[derive(Default)]
struct Surroundings {
    /// The other controllers.
    others: &'static [&'static str],
    /// Objects that are there before the life.
    objects: Vec<Value>,
    /// Simulated nodes.
    nodes: u32,
}

/// A proof of one built-in controller.
fn controller(name: &'static str, surroundings: Surroundings) -> Prove {
    let subject = Subject::manager(name, surroundings.objects, move |manager| {
        let options = Options {
            only: Some([name.to_owned()].into()),
            root_ca: Some("certificate".to_owned()),
            token_signer: Some(TokenSigner::new(|claims| Some(claims["sub"].to_string()))),
        };
        setpoint_controllers::register(manager, &options)
    });
    let others: Vec<String> = surroundings.others.iter().map(|name| (*name).to_owned()).collect();
    // A day of the garbage collector is thousands of watches that end and begin again.
    let collects = name == "garbage" || others.iter().any(|other| other == "garbage");
    let proof = if collects { prove(subject).without("idle time") } else { prove(subject) };
    let proof = proof.settings(|settings| {
        settings.patience = Duration::from_secs(120);
        settings.settle = Duration::from_secs(10);
        settings.plans = PLANS;
    });
    proof.cluster(move |options| {
        options.controllers = Controllers::Only(others);
        options.nodes.count = surroundings.nodes;
        options.admission.plugins.remove(&Plugin::ServiceAccount);
    })
}

#[allow(clippy::disallowed_methods, reason = "the seconds are printed, and nothing depends on them")]
fn is_sound(proof: Prove) {
    let began = Instant::now();
    let report = proof.check();
    println!("{report}  {:.1} s", began.elapsed().as_secs_f64());
    assert_eq!(report.nondeterminism, None);
    assert_eq!(report.unconfirmed, 0);
    let faults = report.visited.iter().filter(|(kind, _)| **kind != "restart at rest");
    assert!(faults.map(|(_, count)| count.run - count.missed).sum::<usize>() > 5, "{report}");
}

/// An object with a name in the namespace `default`.
fn object(version: &str, kind: &str, name: &str, fields: Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

/// The template of a pod.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}

/// A pod.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = object("v1", "Pod", name, template("a"));
    pod["metadata"] = json!({"name": name, "labels": {"app": "a"}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}
