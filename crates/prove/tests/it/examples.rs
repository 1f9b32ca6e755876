//! The example operators have no findings.

use std::time::Duration;

use serde_json::{Value, json};
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Operator, Settings, prove};

const MYRESOURCE: Operator = Operator {
    name: myresource_operator::NAME,
    register: myresource_operator::register,
    manifests: myresource_operator::manifests,
};

const FOO: Operator = Operator {
    name: foo_controller::NAME,
    register: foo_controller::register,
    manifests: foo_controller::manifests,
};

fn resource(image: &str) -> Value {
    json!({
        "apiVersion": "mygroup.example.com/v1alpha1", "kind": "MyResource", "metadata": {"name": "a"},
        "spec": {"image": image, "memory": "512Mi"},
    })
}

fn foo(replicas: i32) -> Value {
    json!({
        "apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo", "metadata": {"name": "a"},
        "spec": {"deploymentName": "a-pods", "replicas": replicas},
    })
}

/// A cluster with the controllers under a Deployment. The others have no part in these lives.
fn with_deployments(options: &mut Options) {
    let controllers = ["deployment", "replicaset", "garbage", "serviceaccount", "scheduler"];
    options.controllers = Controllers::Only(controllers.map(str::to_owned).to_vec());
}

/// The longest back-off of these operators is short in these lives.
fn short(settings: &mut Settings) {
    settings.patience = Duration::from_secs(120);
    settings.settle = Duration::from_secs(10);
    // The first plans: crashes, failed writes, other people. The whole list takes minutes in a debug build.
    settings.runs = 100;
}

#[test]
fn myresource_converges() {
    let report = prove(MYRESOURCE)
        .cluster(with_deployments)
        .settings(short)
        .apply(resource("nginx"))
        .patch("a", json!({"spec": {"image": "nginx:2"}}))
        .delete("a")
        .check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!(report.unconfirmed, 0);
}

#[test]
fn foo_converges() {
    let report = prove(FOO)
        .cluster(with_deployments)
        .settings(short)
        .apply(foo(1))
        .patch("a", json!({"spec": {"replicas": 2}}))
        .delete("a")
        .check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!(report.unconfirmed, 0);
}
