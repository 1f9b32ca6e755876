//! Tables: the pods that leave a tainted node, and when.

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint::informer::{Delta, Scope, Store, Uid};
use setpoint::predicate::Change;
use setpoint::queue::Trigger;
use setpoint::{Key, Object};

use super::plan::{Fate, fate};
use super::state::State;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn toleration(key: &str, seconds: Option<i64>) -> Value {
    json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
}

#[test]
fn a_pod_goes_when_its_shortest_toleration_has_run_out() {
    let (a, b) = (json!({ "key": "a", "effect": "NoExecute" }), json!({ "key": "b", "effect": "NoExecute" }));
    for (what, taints, tolerations, deletion_time, expected) in [
        ("no taint", json!([]), json!([]), None, Fate::Stay),
        ("no taint any more", json!([]), json!([]), Some(5), Fate::Stay),
        ("no toleration", json!([a]), json!([]), None, Fate::Go),
        ("another toleration", json!([a]), json!([toleration("b", None)]), None, Fate::Go),
        ("one taint too many", json!([a, b]), json!([toleration("a", None)]), None, Fate::Go),
        ("for ever", json!([a]), json!([toleration("a", None)]), None, Fate::Stay),
        ("for a time", json!([a]), json!([toleration("a", Some(30))]), None, Fate::GoAt(at(130))),
        ("for no time", json!([a]), json!([toleration("a", Some(0))]), None, Fate::Go),
        ("for less than no time", json!([a]), json!([toleration("a", Some(-3))]), None, Fate::Go),
        ("for all time", json!([a]), json!([toleration("a", Some(i64::MAX))]), None, Fate::Stay),
        ("told before", json!([a]), json!([toleration("a", Some(30))]), Some(110), Fate::GoAt(at(110))),
        ("told, and it is time", json!([a]), json!([toleration("a", Some(30))]), Some(100), Fate::Go),
        ("told, for ever now", json!([a]), json!([toleration("a", None)]), Some(110), Fate::Stay),
        (
            "the shorter of two",
            json!([a, b]),
            json!([toleration("a", Some(60)), toleration("b", Some(20))]),
            None,
            Fate::GoAt(at(120)),
        ),
        (
            "the first that fits counts",
            json!([a]),
            json!([toleration("a", Some(60)), toleration("a", Some(20))]),
            None,
            Fate::GoAt(at(160)),
        ),
    ] {
        let taints: Vec<_> = serde_json::from_value(taints).unwrap();
        let tolerations: Vec<_> = serde_json::from_value(tolerations).unwrap();
        assert_eq!(fate(&taints, &tolerations, deletion_time.map(at), at(100)), expected, "{what}");
    }
}

fn object(value: Value) -> Object {
    Object::from_json(value.to_string().as_bytes()).unwrap()
}

fn pod(name: &str, node: &str) -> Object {
    object(json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [], "nodeName": node },
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "2" } }))
}

fn node(effect: &str) -> Object {
    object(
        json!({ "apiVersion": "v1", "kind": "Node", "spec": { "taints": [{ "key": "a", "effect": effect }] },
        "metadata": { "name": "n", "uid": "n", "resourceVersion": "1" } }),
    )
}

fn names(requests: &[Key]) -> Vec<&str> {
    requests.iter().map(Key::name).collect()
}

fn change<'a>(old: Option<&'a Object>, new: Option<&'a Object>) -> Change<'a> {
    Change { trigger: Trigger::Updated, old, new }
}

#[test]
fn pods_are_looked_at_when_their_node_is_tainted_or_was() {
    let pods = Store::default();
    let (near, far) = (pod("near", "n"), pod("far", "m"));
    pods.apply(&Scope::All, Delta::Replaced { revision: 9, objects: vec![near.clone(), far.clone()] });
    let state = State::new(pods);
    let (bad, fine) = (node("NoExecute"), node("NoSchedule"));
    assert!(state.pod_changed(&change(None, Some(&near))).is_empty());
    assert!(state.node_changed(&change(None, Some(&fine))).is_empty());
    assert_eq!(names(&state.node_changed(&change(Some(&fine), Some(&bad)))), ["near"]);
    assert!(state.node_changed(&change(Some(&bad), Some(&bad))).is_empty());
    assert_eq!(names(&state.pod_changed(&change(None, Some(&near)))), ["near"]);
    assert!(state.pod_changed(&change(None, Some(&far))).is_empty());
    let uid = Uid::new("near");
    state.set_deletion_time(near.key(), &uid, at(9));
    assert_eq!(state.deletion_time(near.key(), &uid), Some(at(9)));
    assert_eq!(state.deletion_time(near.key(), &Uid::new("its successor")), None);
    assert_eq!(names(&state.node_changed(&change(Some(&bad), Some(&fine)))), ["near"]);
    assert_eq!(names(&state.pod_changed(&change(Some(&near), None))), ["near"], "it waited to go");
    assert!(state.clear_deletion_time(near.key()) && !state.clear_deletion_time(near.key()));
}
