//! Budgets in tables.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use serde_json::{Value, json};
use setpoint::Object;
use setpoint::informer::{Delta, Lister, Scope, Store};
use setpoint::predicate::Change;
use setpoint::queue::Trigger;

use super::plan::{Plan, is_relative, plan, selects};
use super::trigger::of_pod;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
    let budget = json!({ "metadata": { "name": "b", "namespace": "ns", "generation": 3 }, "spec": spec,
        "status": status });
    serde_json::from_value(budget).unwrap()
}

/// Pods by letter: `r` is ready, `u` is not, `d` was ready and is being deleted.
fn pods(letters: &str) -> Vec<Pod> {
    let pod = |(number, letter): (usize, char)| {
        let ready = if letter == 'u' { "False" } else { "True" };
        let mut pod = json!({ "metadata": { "name": format!("p{number}") },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } });
        if letter == 'd' {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(pod).unwrap()
    };
    letters.chars().enumerate().map(pod).collect()
}

fn decide(budget: &PodDisruptionBudget, letters: &str, expected: Result<i32, String>, now: i64) -> Plan {
    let pods = pods(letters);
    plan(budget, &pods.iter().collect::<Vec<_>>(), expected, at(now))
}

/// Healthy, desired, expected, allowed, as they are written.
fn numbers(status: &PodDisruptionBudgetStatus) -> [i64; 4] {
    let status = json!(status);
    ["currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed"]
        .map(|name| status[name].as_i64().unwrap())
}

#[test]
fn a_budget_allows_what_is_healthy_beyond_what_is_desired() {
    for (spec, letters, expected, wanted) in [
        (json!({ "minAvailable": 2 }), "rrr", 3, [3, 2, 3, 1]),
        (json!({ "minAvailable": 2 }), "rrd", 3, [2, 2, 3, 0]),
        (json!({ "minAvailable": 2 }), "rru", 3, [2, 2, 3, 0]),
        (json!({ "minAvailable": 2 }), "r", 1, [1, 2, 1, 0]),
        (json!({ "minAvailable": 0 }), "rr", 2, [2, 0, 2, 2]),
        (json!({ "minAvailable": 0 }), "", 0, [0, 0, 0, 0]),
        (json!({ "minAvailable": "50%" }), "rrr", 3, [3, 2, 3, 1]),
        (json!({ "minAvailable": "100%" }), "rrr", 3, [3, 3, 3, 0]),
        (json!({ "maxUnavailable": 1 }), "rrr", 3, [3, 2, 3, 1]),
        (json!({ "maxUnavailable": 1 }), "rr", 3, [2, 2, 3, 0]),
        (json!({ "maxUnavailable": 5 }), "rrr", 3, [3, 0, 3, 3]),
        (json!({ "maxUnavailable": "30%" }), "rrrrr", 5, [5, 3, 5, 2]),
        // A surge: more pods than should be.
        (json!({ "maxUnavailable": "0%" }), "rrrr", 3, [4, 3, 3, 1]),
        // Only unmanaged pods: their expected number is unknown.
        (json!({ "maxUnavailable": 1 }), "rr", 0, [2, 0, 0, 0]),
        (json!({}), "rr", 2, [2, 0, 2, 2]),
    ] {
        let status = decide(&budget(spec.clone(), json!({})), letters, Ok(expected), 9).status.unwrap();
        assert_eq!(numbers(&status), wanted, "{spec} of {letters:?}");
        assert_eq!(status.observed_generation, Some(3));
        let condition = &status.conditions.as_ref().unwrap()[0];
        let (value, reason) =
            if wanted[3] > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        assert_eq!((condition.status.as_str(), condition.reason.as_str()), (value, reason));
        assert_eq!(condition.observed_generation, Some(3));
        // The same again is not written again.
        let written = budget(spec, json!(status));
        assert_eq!(
            decide(&written, letters, Ok(expected), 99),
            Plan { status: None, requeue: None, overdue: vec![] }
        );
    }
}

#[test]
fn an_evicted_pod_is_lost_until_it_goes_or_two_minutes_have_passed() {
    for (what, letters, now, healthy, kept, requeue) in [
        ("just evicted", "rrr", 100, 2, true, Some(120)),
        ("later", "rrr", 219, 2, true, Some(1)),
        ("too late", "rrr", 220, 3, false, None),
        ("being deleted", "drr", 101, 2, false, None),
        ("gone", "", 101, 0, false, None),
    ] {
        let evicted =
            json!({ "disruptedPods": { "p0": at(100).to_string(), "absent": at(100).to_string() } });
        let plan = decide(&budget(json!({ "minAvailable": 1 }), evicted), letters, Ok(3), now);
        let status = plan.status.unwrap();
        assert_eq!(numbers(&status)[0], healthy, "{what}");
        let names: Vec<String> = status.disrupted_pods.unwrap_or_default().into_keys().collect();
        assert_eq!(names, if kept { vec!["p0"] } else { vec![] }, "{what}");
        assert_eq!(plan.requeue.map(|left| left.as_secs()), requeue, "{what}");
        assert_eq!(plan.overdue, if what == "too late" { vec!["p0"] } else { vec![] }, "{what}");
    }
}

#[test]
fn what_cannot_be_counted_allows_nothing_and_says_why() {
    let spec = json!({ "maxUnavailable": 1 });
    let good = decide(&budget(spec.clone(), json!({})), "rrr", Ok(3), 1).status.unwrap();
    let bad = decide(&budget(spec.clone(), json!(good)), "rrr", Err("no scale".into()), 2).status.unwrap();
    assert_eq!(numbers(&bad), [3, 2, 3, 0]);
    let conditions = bad.conditions.as_ref().unwrap();
    let said: Vec<_> =
        conditions.iter().map(|c| (c.status.as_str(), c.reason.as_str(), c.message.as_str())).collect();
    assert_eq!(said, [("False", "SyncFailed", "no scale")]);
    assert_eq!(conditions[0].last_transition_time.0, at(2));
    let again = budget(spec, json!(bad));
    assert_eq!(decide(&again, "rrr", Err("no scale".into()), 3).status, None);
    // Still nothing is allowed, for another reason: the time of transition stays.
    let few = decide(&again, "rr", Ok(3), 4).status.unwrap().conditions.unwrap();
    assert_eq!((few[0].reason.as_str(), few[0].message.as_str()), ("InsufficientPods", ""));
    assert_eq!(few[0].last_transition_time.0, at(2));
}

#[test]
fn no_selector_selects_nothing_and_an_empty_one_everything() {
    let labels = [("app".to_owned(), "web".to_owned())].into();
    for (spec, on_web, on_none) in [
        (json!({}), false, false),
        (json!({ "selector": {} }), true, true),
        (json!({ "selector": { "matchLabels": { "app": "web" } } }), true, false),
        (json!({ "selector": { "matchLabels": { "app": "db" } } }), false, false),
    ] {
        let budget = budget(spec.clone(), json!({}));
        assert_eq!((selects(&budget, Some(&labels)), selects(&budget, None)), (on_web, on_none), "{spec}");
    }
    for (spec, relative) in [
        (json!({ "minAvailable": 1 }), false),
        (json!({ "minAvailable": "10%" }), true),
        (json!({ "maxUnavailable": 1 }), true),
        (json!({ "maxUnavailable": "10%" }), true),
    ] {
        assert_eq!(is_relative(&budget(spec.clone(), json!({}))), relative, "{spec}");
    }
}

#[test]
fn a_pod_queues_the_budgets_that_select_it_or_did() {
    let object = |value: Value| Object::from_json(value.to_string().as_bytes()).unwrap();
    let of = |app: &str| {
        object(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": app, "namespace": "ns", "uid": app, "resourceVersion": "1" },
            "spec": { "selector": { "matchLabels": { "app": app } } } }))
    };
    let store = Store::default();
    store.apply(&Scope::All, Delta::Replaced { revision: 9, objects: vec![of("web"), of("db")] });
    let budgets = Lister::new(store);
    let pod = |namespace: &str, app: &str| {
        object(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": namespace,
            "uid": "p", "resourceVersion": "2", "labels": { "app": app } } }))
    };
    for (old, new, expected) in [
        (None, Some(pod("ns", "web")), vec!["web"]),
        (Some(pod("ns", "web")), Some(pod("ns", "db")), vec!["db", "web"]),
        (Some(pod("ns", "web")), None, vec!["web"]),
        (None, Some(pod("ns", "other")), vec![]),
        (None, Some(pod("elsewhere", "web")), vec![]),
    ] {
        let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
        let concerned = of_pod(&change, &budgets);
        let names: Vec<&str> = concerned.budgets.iter().map(setpoint::Key::name).collect();
        assert_eq!((names, concerned.ambiguous), (expected, None));
    }
}

#[test]
fn a_pod_that_two_budgets_select_is_told_so() {
    let object = |value: Value| Object::from_json(value.to_string().as_bytes()).unwrap();
    let of = |name: &str, selector: Value| {
        object(json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" },
            "spec": { "selector": selector } }))
    };
    let store = Store::default();
    let objects = vec![of("b", json!({})), of("a", json!({ "matchLabels": { "app": "web" } }))];
    store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
    let budgets = Lister::new(store);
    let pod = |app: &str| {
        object(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "ns",
            "uid": "u", "resourceVersion": "2", "labels": { "app": app } } }))
    };
    let said = |old: Option<&Object>, new: Option<&Object>| {
        of_pod(&Change { trigger: Trigger::Updated, old, new }, &budgets).ambiguous
    };
    let (web, db) = (pod("web"), pod("db"));
    let (about, message) = said(None, Some(&web)).unwrap();
    assert_eq!((about.name.as_deref(), about.uid.as_deref()), (Some("p"), Some("u")));
    assert_eq!(message, "Pod \"ns\"/\"p\" matches multiple PodDisruptionBudgets.  Chose \"a\" arbitrarily.");
    assert_eq!(said(Some(&web), Some(&db)), None, "one is left");
    assert_eq!(said(Some(&web), None), None, "it is gone");
}
