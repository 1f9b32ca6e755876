//! Which Deployments a change queues: the triggers of kube-controller-manager's DeploymentController.

use serde_json::{Value, json};
use setpoint::informer::{Delta, Lister, Scope, Store};
use setpoint::predicate::Change;
use setpoint::queue::Trigger;
use setpoint::{Key, Manager, ManagerOptions, Object};

use super::super::register;
use super::super::trigger::{Deployments, of_pod};

fn object(value: &Value) -> Object {
    Object::from_json(value.to_string().as_bytes()).unwrap()
}

fn store(objects: &[Value]) -> Store {
    let store = Store::default();
    let objects = objects.iter().map(object).collect();
    store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
    store
}

fn deployment(name: &str, app: &str, strategy: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "ns", "uid": format!("{name}-uid"), "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": app } }, "strategy": { "type": strategy },
            "template": {} } })
}

/// Two Deployments that select `web`, one that selects `db`, one that selects everything and so nothing.
fn deployments() -> Lister<k8s_openapi::api::apps::v1::Deployment> {
    let mut all = deployment("all", "x", "RollingUpdate");
    all["spec"]["selector"] = json!({});
    Lister::new(store(&[
        deployment("a", "web", "RollingUpdate"),
        deployment("b", "web", "Recreate"),
        deployment("c", "db", "RollingUpdate"),
        all,
    ]))
}

fn owned_by(name: &str, uid: &str) -> Value {
    json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": true }])
}

/// A ReplicaSet labelled `app`, with these owners, perhaps on its way out.
fn set(app: &str, owners: Value, going: bool) -> Value {
    let mut set = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": "rs", "namespace": "ns", "uid": "rs-uid", "resourceVersion": "2",
            "labels": { "app": app }, "ownerReferences": owners } });
    if going {
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    set
}

fn queued(requests: Vec<Key>) -> Vec<String> {
    let mut names: Vec<String> = requests.iter().map(|request| request.name().to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn every_change_of_a_replica_set_queues_whom_it_concerns() {
    let (orphan, of_a, of_c) = (json!([]), owned_by("a", "a-uid"), owned_by("c", "c-uid"));
    // what happened; before, after → queued
    let cases = [
        ("owned, added", None, Some(set("web", of_a.clone(), false)), vec!["a"]),
        ("orphan, added: all that match", None, Some(set("web", orphan.clone(), false)), vec!["a", "b"]),
        ("orphan, nobody matches", None, Some(set("x", orphan.clone(), false)), vec![]),
        ("owned, added while going: as if deleted", None, Some(set("web", of_a.clone(), true)), vec!["a"]),
        ("orphan, added while going", None, Some(set("web", orphan.clone(), true)), vec![]),
        ("owned, deleted", Some(set("web", of_a.clone(), false)), None, vec!["a"]),
        ("orphan, deleted", Some(set("web", orphan.clone(), false)), None, vec![]),
        (
            "owned, changed",
            Some(set("web", of_a.clone(), false)),
            Some(set("web", of_a.clone(), false)),
            vec!["a"],
        ),
        (
            "from one owner to another: both",
            Some(set("web", of_a.clone(), false)),
            Some(set("web", of_c.clone(), false)),
            vec!["a", "c"],
        ),
        (
            "released: its owner and all that match",
            Some(set("web", of_c, false)),
            Some(set("web", orphan.clone(), false)),
            vec!["a", "b", "c"],
        ),
        (
            "orphan, relabelled: all that match now",
            Some(set("db", orphan.clone(), false)),
            Some(set("web", orphan.clone(), false)),
            vec!["a", "b"],
        ),
        (
            "orphan, something else changed",
            Some(set("web", orphan.clone(), false)),
            Some(set("web", orphan, false)),
            vec![],
        ),
        ("of a namesake that is gone", None, Some(set("web", owned_by("a", "older-uid"), false)), vec![]),
        (
            "of another kind",
            None,
            Some(set(
                "web",
                json!([{ "apiVersion": "x/v1", "kind": "Deployment", "name": "a", "uid": "a-uid", "controller": true }]),
                false,
            )),
            vec![],
        ),
    ];
    let deployments = Deployments(deployments());
    for (what, old, new, expected) in cases {
        let (old, new) = (old.as_ref().map(object), new.as_ref().map(object));
        let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
        assert_eq!(queued(deployments.of_replica_set(&change)), expected, "{what}");
    }
}

#[test]
fn a_deleted_pod_queues_only_a_deployment_that_recreates() {
    let named = |name: &str, owner: &str| {
        let mut set = set("web", owned_by(owner, &format!("{owner}-uid")), false);
        set["metadata"]["name"] = json!(name);
        set["spec"] = json!({ "selector": {}, "template": {} });
        set
    };
    let sets = Lister::new(store(&[named("rs-a", "a"), named("rs-b", "b")]));
    let pod = |set: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "ns", "uid": "p",
            "resourceVersion": "3", "ownerReferences": [
            { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": "x", "controller": true }] } })
    };
    // the pod's set, gone → queued
    for (set, gone, expected) in [
        ("rs-b", true, vec!["b"]),
        ("rs-a", true, vec![]),
        ("rs-b", false, vec![]),
        ("rs-unknown", true, vec![]),
    ] {
        let pod = object(&pod(set));
        let change = Change { trigger: Trigger::Deleted, old: Some(&pod), new: (!gone).then_some(&pod) };
        assert_eq!(queued(of_pod(&change, &sets, &deployments())), expected, "{set} {gone}");
    }
}

#[tokio::test]
async fn the_queue_has_the_name_that_it_has_in_go() {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let manager = Manager::new(kube::Client::try_from(config).unwrap(), ManagerOptions::default());
    register(&manager).unwrap();
    let metrics = manager.metrics().encode();
    assert!(metrics.contains("workqueue_adds_total{name=\"deployment\""), "{metrics}");
}
