//! Silence, taints and pace, in tables.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::health::Known;
use super::silence::unknown;
use super::taints::{Drive, is_due, plan};
use super::zone::{Pace, Turn, Zones, zone};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn node(name: &str, conditions: Value, spec: Value) -> Node {
    serde_json::from_value(
        json!({ "metadata": { "name": name, "uid": name, "creationTimestamp": at(0).to_string() },
        "spec": spec, "status": { "conditions": conditions } }),
    )
    .unwrap()
}

fn ready(status: &str) -> Value {
    json!([{ "type": "Ready", "status": status, "lastHeartbeatTime": at(5).to_string() }])
}

#[test]
fn a_node_is_silent_when_neither_lease_nor_heartbeat_came_for_its_time() {
    let seconds = |left: Option<SignedDuration>| left.map(|left| left.as_secs());
    let mut known = Known::default();
    let plain = node("n", ready("True"), json!({}));
    assert!(known.observe(&plain, None, at(100)));
    assert!(!known.observe(&plain, None, at(120)), "known, and nothing new was heard");
    assert_eq!(seconds(known.patience(&plain, at(120))), Some(30));
    known.observe(&plain, Some(at(119)), at(121));
    assert_eq!(seconds(known.patience(&plain, at(121))), Some(50), "its lease was renewed");
    assert!(known.is_news("n", Some(at(130))) && !known.is_news("n", Some(at(119))));
    let mut later = plain.clone();
    later.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].last_heartbeat_time =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(140)));
    known.observe(&later, Some(at(119)), at(141));
    assert_eq!(seconds(known.patience(&later, at(141))), Some(50), "its status was written");
    assert_eq!(seconds(known.patience(&later, at(191))), None);
    known.forgive(at(200));
    assert_eq!(seconds(known.patience(&later, at(201))), Some(49));
    // One that never reported has a minute from its creation.
    let fresh = node("fresh", json!([]), json!({}));
    known.observe(&fresh, None, at(20));
    assert_eq!(seconds(known.patience(&fresh, at(20))), Some(40));
    assert_eq!(known.forget("fresh").as_deref(), Some("fresh"));
}

#[test]
fn the_status_of_a_silent_node_says_unknown_once() {
    let mut silent = node(
        "n",
        json!([{ "type": "Ready", "status": "True" }, { "type": "Other", "status": "True" }]),
        json!({}),
    );
    let status = unknown(&silent, at(60)).unwrap();
    let said: Vec<String> = status
        .conditions
        .iter()
        .flatten()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        said,
        [
            "Ready=Unknown NodeStatusUnknown",
            "Other=True ",
            "MemoryPressure=Unknown NodeStatusNeverUpdated",
            "DiskPressure=Unknown NodeStatusNeverUpdated",
            "PIDPressure=Unknown NodeStatusNeverUpdated",
        ]
    );
    silent.status = Some(status);
    assert_eq!(unknown(&silent, at(70)), None);
}

#[test]
fn taints_follow_conditions_and_cordons_and_leave_others_alone() {
    let words = |taints: &[&str]| -> Value {
        let one = |text: &&str| {
            let (key, effect) = text.split_once(':').unwrap();
            let key = if key == "mine" { key.to_owned() } else { format!("node.kubernetes.io/{key}") };
            json!({ "key": key, "effect": effect })
        };
        taints.iter().map(one).collect()
    };
    for (status, cordoned, present, drive, expected) in [
        ("True", false, vec![], Drive::NotYet, None),
        ("True", false, vec!["mine:NoExecute"], Drive::NotYet, None),
        (
            "True",
            true,
            vec!["mine:NoSchedule"],
            Drive::NotYet,
            Some(vec!["mine:NoSchedule", "unschedulable:NoSchedule"]),
        ),
        ("True", false, vec!["unschedulable:NoSchedule"], Drive::NotYet, Some(vec![])),
        ("True", false, vec!["not-ready:NoSchedule", "not-ready:NoExecute"], Drive::NotYet, Some(vec![])),
        ("False", false, vec![], Drive::NotYet, Some(vec!["not-ready:NoSchedule"])),
        ("False", false, vec![], Drive::Off, Some(vec!["not-ready:NoSchedule", "not-ready:NoExecute"])),
        (
            "Unknown",
            false,
            vec!["not-ready:NoSchedule", "not-ready:NoExecute"],
            Drive::NotYet,
            Some(vec!["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ),
        ("Unknown", false, vec!["unreachable:NoSchedule"], Drive::NotYet, None),
        (
            "Unknown",
            false,
            vec!["unreachable:NoSchedule", "unreachable:NoExecute"],
            Drive::Nobody,
            Some(vec!["unreachable:NoSchedule"]),
        ),
    ] {
        let spec = json!({ "unschedulable": cordoned, "taints": words(&present) });
        let node = node("n", ready(status), spec);
        let taints = plan(&node, drive, at(9));
        let got = taints.map(|taints| {
            let text = |taint: &k8s_openapi::api::core::v1::Taint| {
                format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect)
            };
            taints.iter().map(text).collect::<Vec<_>>()
        });
        assert_eq!(
            got,
            expected.map(|words| words.into_iter().map(str::to_owned).collect()),
            "{status} {present:?}"
        );
    }
    let pressed = node("n", json!([{ "type": "DiskPressure", "status": "True" }]), json!({}));
    assert_eq!(plan(&pressed, Drive::Off, at(9)).unwrap()[0].key, "node.kubernetes.io/disk-pressure");
    assert!(is_due(&node("n", ready("Unknown"), json!({}))) && !is_due(&node("n", ready("True"), json!({}))));
}

#[test]
fn nodes_are_tainted_one_by_one_and_not_at_all_where_most_fail() {
    let zones = |ready_ones: usize, failed: usize| {
        let all: Vec<Node> = (0..ready_ones + failed)
            .map(|number| node("n", ready(if number < failed { "Unknown" } else { "True" }), json!({})))
            .collect();
        Zones::of(&all)
    };
    let here = zone(&node("n", json!([]), json!({})));
    let take = |zones: &Zones| {
        let mut pace = Pace::default();
        (pace.take(&here, zones, at(0)), pace.take(&here, zones, at(4)))
    };
    let later = |seconds| Turn::In(SignedDuration::from_secs(seconds));
    assert_eq!(take(&zones(2, 1)), (Turn::Now, later(6)));
    assert_eq!(take(&zones(1, 2)), (Turn::Now, later(6)), "two are not many");
    assert_eq!(take(&zones(3, 3)), (Turn::Now, later(6)));
    assert_eq!(take(&zones(2, 3)), (Turn::Never, Turn::Never));
    assert_eq!(take(&zones(20, 40)), (Turn::Now, later(96)));
    assert!(zones(0, 2).is_dark() && !zones(1, 9).is_dark());
}
