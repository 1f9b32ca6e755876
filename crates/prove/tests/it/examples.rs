//! The example operators have no findings.

use std::time::Duration;

use hostrecord_operator::Folder;
use serde_json::{Value, json};
use setpoint_cluster::{Controllers, Options};
use setpoint_prove::{Operator, Prove, Settings, Subject, prove};

const MYRESOURCE: Operator = Operator {
    name: myresource_operator::NAME,
    register: myresource_operator::register,
    manifests: myresource_operator::manifests,
};

const MARKDOWNVIEW: Operator = Operator {
    name: markdownview_operator::NAME,
    register: markdownview_operator::register,
    manifests: markdownview_operator::manifests,
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

fn view(summary: &str) -> Value {
    json!({
        "apiVersion": "view.zoetrope.github.io/v1", "kind": "MarkdownView", "metadata": {"name": "a"},
        "spec": {"markdowns": {"SUMMARY.md": summary}, "replicas": 1, "viewerImage": "viewer:1"},
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
    // The whole list takes minutes in a debug build.
    settings.plans = 30;
}

fn is_sound(proof: Prove) {
    // A day of the garbage collector is thousands of watches that end and begin again.
    let report = proof.cluster(with_deployments).settings(short).without("idle time").check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!(report.unconfirmed, 0);
    for kind in ["crash after a write", "lost answer", "change of leader", "late standby", "leader cut off"] {
        assert!(report.visited[kind].run > 0, "{kind}: {report}");
    }
}

#[test]
fn myresource_converges() {
    let life = prove(MYRESOURCE)
        .apply(resource("nginx"))
        .patch("a", json!({"spec": {"image": "nginx:2"}}))
        .delete("a");
    is_sound(life);
}

#[test]
fn foo_converges() {
    let life = prove(FOO).apply(foo(1)).patch("a", json!({"spec": {"replicas": 2}})).delete("a");
    is_sound(life);
}

#[test]
fn markdownview_converges() {
    let handlers = markdownview_operator::webhooks();
    let configurations = handlers.configurations();
    let life = prove(MARKDOWNVIEW)
        .webhooks("markdown-view-system", "markdown-view-webhooks", configurations, move |request| {
            let handlers = handlers.clone();
            async move { handlers.call(request).await }
        })
        .apply(view("# One"))
        .patch("a", json!({"spec": {"replicas": 2, "markdowns": {"SUMMARY.md": "# Two"}}}))
        .delete("a");
    is_sound(life);
}

#[test]
fn hostrecord_converges() {
    // The files outside of the cluster stay from run to run, as those of a crashed process do.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let manifests = hostrecord_operator::manifests("image");
    let subject = Subject::manager(hostrecord_operator::NAME, manifests, move |manager| {
        hostrecord_operator::register(manager, Folder::open(&path).unwrap())
    });
    let spec = json!({"clusterIP": "10.96.0.40", "ports": [{"port": 80}]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop"}, "spec": spec});
    let record = json!({
        "apiVersion": "dns.example.com/v1", "kind": "HostRecord", "metadata": {"name": "a"},
        "spec": {"hostname": "a.example.com", "service": "shop"},
    });
    is_sound(prove(subject).apply(record).apply(service).delete("shop").delete("a"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file is left");
}
