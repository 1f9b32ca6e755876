//! The built-in controllers have no findings: each alone is the operator under test.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use setpoint_cluster::Controllers;
use setpoint_prove::{Prove, Subject, prove};

/// Runs of one subject in these tests. `cargo xtask soak` has no such bound.
const RUNS: usize = 40;

/// A proof of one built-in controller on a cluster with some others, and without nodes: pods stay pending.
fn controller(name: &'static str, others: &[&str]) -> Prove {
    let subject = Subject::manager(name, Vec::new(), move |manager| {
        let only = Some([name.to_owned()].into());
        setpoint_controllers::register(manager, &setpoint_controllers::Options { only, ..Default::default() })
    });
    let others: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
    let proof = prove(subject).settings(|settings| {
        settings.patience = Duration::from_secs(120);
        settings.settle = Duration::from_secs(10);
        settings.runs = RUNS;
    });
    proof.cluster(move |options| {
        options.controllers = Controllers::Only(others);
        options.nodes.count = 0;
        options.admission.service_account = false;
    })
}

fn workload(kind: &str, group: &str, replicas: i64) -> Value {
    let labels = json!({"app": "a"});
    let mut object = json!({
        "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "a"}]},
            },
        },
    });
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = "a".into();
        object["spec"]["podManagementPolicy"] = "Parallel".into();
    }
    object
}

fn is_sound(proof: Prove) {
    let report = proof.check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!(report.unconfirmed, 0);
    assert!(report.visited.values().map(|count| count.run).sum::<usize>() > RUNS / 2, "{report}");
}

#[test]
fn replicasets_converge() {
    let life = controller("replicaset", &["garbage"])
        .apply(workload("ReplicaSet", "apps", 2))
        .apply(workload("ReplicaSet", "apps", 3))
        .apply(workload("ReplicaSet", "apps", 1))
        .delete("a");
    is_sound(life.never("more than three pods", |view| view.list::<Pod>().len() > 3));
}

#[test]
fn deployments_converge() {
    let life = controller("deployment", &["replicaset", "garbage"])
        .apply(workload("Deployment", "apps", 2))
        .apply(workload("Deployment", "apps", 3))
        .delete("a");
    is_sound(life);
}

#[test]
fn stateful_sets_converge() {
    let life = controller("statefulset", &["garbage"])
        .apply(workload("StatefulSet", "apps", 2))
        .apply(workload("StatefulSet", "apps", 1))
        .delete("a");
    is_sound(life);
}

#[test]
fn jobs_converge() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"parallelism": 2, "completions": 4, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "a"}],
        }}},
    });
    let life = controller("job", &["garbage"])
        .apply(job)
        .patch("a", json!({"spec": {"parallelism": 1}}))
        .delete("a");
    is_sound(life.never("more than two pods", |view| view.list::<Pod>().len() > 2));
}
