//! Which pods go, in tables.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};
use setpoint::informer::{Delta, Scope, Store};
use setpoint::predicate::Change;
use setpoint::queue::Trigger;
use setpoint::{Key, Object};

use super::plan::{Cause, cause, failed, is_settled};
use super::state::{QUARANTINE, State};

fn pod(name: &str, node: &str, phase: &str, leaving: bool) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "2", "generation": 3 },
        "spec": { "containers": [], "nodeName": node }, "status": { "phase": phase } });
    if leaving {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    }
    pod
}

fn node(ready: &str, taint: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n", "uid": "n", "resourceVersion": "1" },
        "spec": { "taints": [{ "key": taint, "effect": "NoExecute" }] },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] } })
}

const OUT: &str = "node.kubernetes.io/out-of-service";

#[test]
fn a_pod_goes_when_no_node_will_end_it() {
    let dead = node("Unknown", OUT);
    for (what, pod, node, expected) in [
        ("on a node", pod("p", "n", "Running", false), Some(&dead), None),
        ("leaving its node", pod("p", "n", "Running", true), Some(&node("True", OUT)), None),
        ("leaving a silent node", pod("p", "n", "Running", true), Some(&node("Unknown", "other")), None),
        ("leaving a dead node", pod("p", "n", "Running", true), Some(&dead), Some(Cause::OutOfService)),
        ("on a node that is gone", pod("p", "n", "Running", false), None, Some(Cause::Orphaned)),
        ("waiting for a node", pod("p", "", "Pending", false), None, None),
        ("leaving before it had a node", pod("p", "", "Pending", true), None, Some(Cause::Unscheduled)),
    ] {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let node: Option<Node> = node.map(|node| serde_json::from_value(node.clone()).unwrap());
        assert_eq!(cause(&pod, node.as_ref()), expected, "{what}");
    }
}

#[test]
fn only_what_had_not_ended_is_marked_and_only_orphans_are_disrupted() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let read = |pod: Value| serde_json::from_value::<Pod>(pod).unwrap();
    assert_eq!(failed(&read(pod("p", "n", "Succeeded", false)), Some(Cause::Orphaned), now), None);
    let plain = failed(&read(pod("p", "n", "Running", true)), Some(Cause::OutOfService), now).unwrap();
    let status = json!({ "phase": "Failed", "observedGeneration": 3 });
    assert_eq!(plain, json!({ "metadata": { "uid": "p" }, "status": status }));
    let orphan = failed(&read(pod("p", "n", "Running", false)), Some(Cause::Orphaned), now).unwrap();
    let condition = &orphan["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"], &condition["observedGeneration"]),
        (
            &json!("DisruptionTarget"),
            &json!("DeletionByPodGC"),
            &json!("PodGC: node no longer exists"),
            &json!(3)
        )
    );
    let mut gone = pod("p", "n", "Failed", true);
    assert!(!is_settled(&read(gone.clone())));
    gone["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    assert!(is_settled(&read(gone)));
}

fn object(value: &Value) -> Object {
    Object::from_json(value.to_string().as_bytes()).unwrap()
}

fn store(objects: &[Value]) -> Store {
    let store = Store::default();
    store.apply(&Scope::All, Delta::Replaced { revision: 9, objects: objects.iter().map(object).collect() });
    store
}

fn names(requests: &[Key]) -> Vec<&str> {
    requests.iter().map(Key::name).collect()
}

fn changed(state: &State, old: Option<&Value>, new: Option<&Value>) -> Vec<Key> {
    let (old, new) = (old.map(object), new.map(object));
    state.pod_changed(&Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() })
}

#[test]
fn the_first_of_too_many_that_have_ended_go_evicted_ones_before_all() {
    let state = State::new(Store::default(), store(&[node("True", "")]), 2);
    let ended = |name: &str, day: u32, reason: &str| {
        let mut pod = pod(name, "n", "Failed", false);
        pod["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{day}T00:00:00Z"));
        pod["status"]["reason"] = json!(reason);
        pod
    };
    assert_eq!(names(&changed(&state, None, Some(&ended("young", 3, "")))), Vec::<&str>::new());
    changed(&state, None, Some(&ended("b-old", 1, "")));
    assert!(state.surplus().is_empty());
    assert_eq!(names(&changed(&state, None, Some(&ended("a-old", 1, "")))), ["ended"]);
    changed(&state, None, Some(&ended("evicted", 9, "Evicted")));
    changed(&state, None, Some(&pod("running", "n", "Running", false)));
    let surplus = state.surplus();
    assert_eq!(surplus.iter().map(setpoint::Key::name).collect::<Vec<_>>(), ["evicted", "a-old"]);
    changed(&state, Some(&ended("evicted", 9, "Evicted")), None);
    assert_eq!(state.surplus().len(), 1);
}

#[test]
fn a_missing_node_is_waited_for_until_it_comes_or_its_last_pod_went() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let state = State::new(Store::default(), Store::default(), 9);
    assert_eq!(state.quarantine("n", at(0)), Some(QUARANTINE));
    assert_eq!(state.quarantine("n", at(39)), Some(SignedDuration::from_secs(1)));
    assert_eq!(state.quarantine("n", at(40)), None);
    changed(&state, Some(&pod("p", "n", "Running", false)), None);
    assert_eq!(state.quarantine("n", at(50)), Some(QUARANTINE), "no pod was left");
    state.found("n");
    assert_eq!(state.quarantine("n", at(90)), Some(QUARANTINE), "it had been there");
}

#[test]
fn changes_queue_the_pods_that_they_concern() {
    let pods = [
        pod("stays", "n", "Running", false),
        pod("leaves", "n", "Running", true),
        pod("other", "m", "Running", true),
    ];
    let live = node("True", OUT);
    let dead = node("Unknown", OUT);
    let state = State::new(store(&pods), store(std::slice::from_ref(&dead)), 9);
    let nodes = |old: Option<&Value>, new: Option<&Value>| {
        let (old, new) = (old.map(object), new.map(object));
        let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
        let mut names: Vec<String> =
            state.node_changed(&change).iter().map(|request| request.name().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(nodes(None, Some(&live)), Vec::<String>::new());
    assert_eq!(nodes(Some(&live), Some(&dead)), ["leaves"]);
    assert_eq!(nodes(Some(&dead), Some(&dead)), Vec::<String>::new());
    assert_eq!(nodes(Some(&dead), None), ["leaves", "stays"]);
    let queued = |pod: Value| !changed(&state, None, Some(&pod)).is_empty();
    assert!(!queued(pod("stays", "n", "Running", false)));
    assert!(queued(pod("leaves", "n", "Running", true)));
    assert!(queued(pod("orphan", "m", "Running", false)));
    assert!(!queued(pod("waits", "", "Pending", false)));
    assert!(queued(pod("unbound", "", "Pending", true)));
}
