use setpoint::Object;
use setpoint::informer::{Delta, Lister, Scope, Store};
use setpoint::predicate::Change;
use setpoint::queue::Trigger;

use super::super::trigger::of_node;
use super::*;

fn object(value: &Value) -> Object {
    Object::from_json(value.to_string().as_bytes()).unwrap()
}

fn daemon(name: &str, selector: &Value) -> Object {
    object(&json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" },
        "spec": { "selector": { "matchLabels": { "app": name } },
            "template": { "spec": { "containers": [], "nodeSelector": selector } } } }))
}

fn node_object(disk: &str, taint: Option<&str>, beat: u32) -> Object {
    let taints: Vec<Value> = taint.iter().map(|effect| json!({ "key": "t", "effect": effect })).collect();
    object(&json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n", "uid": "n", "resourceVersion": beat.to_string(), "labels": { "disk": disk } },
        "spec": { "taints": taints }, "status": { "phase": beat.to_string() } }))
}

#[test]
fn a_node_queues_the_daemon_sets_that_judge_it_otherwise_than_before() {
    let store = Store::default();
    let objects = vec![daemon("all", &json!({})), daemon("ssd", &json!({ "disk": "ssd" }))];
    store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
    let sets = Lister::new(store);
    let (hdd, ssd) = (|| Some(node_object("hdd", None, 1)), || Some(node_object("ssd", None, 2)));
    for (what, old, new, expected) in [
        ("added", None, hdd(), vec!["all"]),
        ("added with the label", None, ssd(), vec!["all", "ssd"]),
        ("labelled", hdd(), ssd(), vec!["ssd"]),
        ("gone", ssd(), None, vec!["all", "ssd"]),
        ("tainted", ssd(), Some(node_object("ssd", Some("NoSchedule"), 3)), vec!["all", "ssd"]),
        ("tainted a little", ssd(), Some(node_object("ssd", Some("PreferNoSchedule"), 3)), vec![]),
        ("alive", hdd(), Some(node_object("hdd", None, 4)), vec![]),
    ] {
        let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
        let mut names: Vec<String> =
            of_node(&change, &sets).iter().map(|request| request.name().to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{what}");
    }
}
