//! Controllers that make pods.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::{Value, json};
use setpoint_prove::{Prove, View};

use super::{Surroundings, controller, is_sound, object, template};

fn workload(kind: &str, replicas: i64, image: &str) -> Value {
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template(image),
    });
    let mut object = object("apps/v1", kind, "a", json!({"spec": spec}));
    if kind == "StatefulSet" {
        object["spec"]["serviceName"] = "a".into();
    }
    object
}

fn at_most(proof: Prove, most: usize) -> Prove {
    let counts = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let lives = pod.metadata.deletion_timestamp.is_none() && phase != Some("Succeeded");
        lives && pod.namespace().as_deref() == Some("default")
    };
    let more = move |view: &View<'_>| view.list::<Pod>().iter().filter(|pod| counts(pod)).count() > most;
    // Who edits a ReplicaSet by hand asks for more pods.
    proof.without("child edited by hand").never("more pods than allowed", more)
}

#[test]
fn replicasets_converge() {
    let proof = controller("replicaset", Surroundings { others: &["garbage"], ..Surroundings::default() });
    let life = proof
        .apply(workload("ReplicaSet", 2, "a"))
        .apply(workload("ReplicaSet", 3, "a"))
        .apply(workload("ReplicaSet", 1, "a"))
        .delete("a");
    is_sound(at_most(life, 3));
}

#[test]
fn replication_controllers_converge() {
    let controller = |replicas: i64| {
        let spec = json!({"replicas": replicas, "selector": {"app": "a"}, "template": template("a")});
        object("v1", "ReplicationController", "a", json!({"spec": spec}))
    };
    let surroundings = Surroundings { others: &["garbage"], ..Surroundings::default() };
    let life = super::controller("replicationcontroller", surroundings)
        .apply(controller(2))
        .apply(controller(3))
        .delete("a");
    is_sound(at_most(life, 3));
}

#[test]
fn deployments_converge() {
    let others = &["replicaset", "garbage", "scheduler"];
    let proof = controller("deployment", Surroundings { others, nodes: 1, ..Surroundings::default() });
    let life = proof
        .apply(workload("Deployment", 2, "a"))
        .apply(workload("Deployment", 2, "b"))
        .apply(workload("Deployment", 1, "a"))
        .delete("a");
    is_sound(at_most(life, 3));
}

#[test]
fn stateful_sets_converge() {
    let others = &["garbage", "scheduler"];
    let proof = controller("statefulset", Surroundings { others, nodes: 1, ..Surroundings::default() });
    let life = proof
        .apply(workload("StatefulSet", 2, "a"))
        .apply(workload("StatefulSet", 2, "b"))
        .apply(workload("StatefulSet", 1, "b"))
        .delete("a");
    is_sound(at_most(life, 2));
}

#[test]
fn daemon_sets_converge() {
    let nodes = ["n1", "n2"].map(|name| object("v1", "Node", name, json!({})));
    let surroundings = Surroundings { others: &["garbage"], objects: nodes.to_vec(), nodes: 0 };
    let set = |image: &str| {
        let mut set = workload("DaemonSet", 0, image);
        set["spec"].as_object_mut().unwrap().remove("replicas");
        set
    };
    let life = controller("daemonset", surroundings).apply(set("a")).apply(set("b")).delete("a");
    is_sound(at_most(life, 2));
}

fn job(name: &str, spec: Value) -> Value {
    let mut job = object("batch/v1", "Job", name, json!({"spec": spec}));
    job["spec"]["template"] = template("a");
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    job["spec"]["template"]["metadata"] = json!({"annotations": {"setpoint.dev/run-for": "1s"}});
    job
}

#[test]
fn jobs_converge() {
    let proof = controller("job", Surroundings { others: &["garbage"], ..Surroundings::default() });
    let life = proof
        .apply(job("a", json!({"parallelism": 2, "completions": 4})))
        .patch("a", json!({"spec": {"parallelism": 1}}))
        .delete("a");
    is_sound(at_most(life, 2));
}

#[test]
fn jobs_that_complete_converge() {
    let others = &["garbage", "scheduler"];
    let proof = controller("job", Surroundings { others, nodes: 1, ..Surroundings::default() });
    let life = proof.apply(job("a", json!({"parallelism": 2, "completions": 3}))).delete("a");
    is_sound(at_most(life, 2));
}

#[test]
fn cron_jobs_converge() {
    // The life begins a minute after midnight.
    let spec = json!({"schedule": "2 0 1 1 *", "jobTemplate": {"spec": job("", json!({}))["spec"]}});
    let proof = controller("cronjob", Surroundings { others: &["garbage"], ..Surroundings::default() });
    // A Job that somebody deletes had its time.
    let life = proof
        .without("child deleted by hand")
        .apply(object("batch/v1", "CronJob", "a", json!({"spec": spec})))
        .patch("a", json!({"spec": {"suspend": true}}))
        .delete("a");
    is_sound(life);
}

#[test]
fn finished_jobs_go_after_their_time() {
    let others = &["job", "garbage", "scheduler"];
    let surroundings = Surroundings { others, nodes: 1, ..Surroundings::default() };
    let life = controller("ttl-after-finished", surroundings)
        .apply(job("a", json!({"ttlSecondsAfterFinished": 5})))
        .apply(job("b", json!({"ttlSecondsAfterFinished": 30})));
    is_sound(life);
}
