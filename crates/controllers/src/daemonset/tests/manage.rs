use std::time::Duration;

use super::super::backoff::Backoff;
use super::super::manage::{BURST, plan};
use super::*;

#[test]
fn pods_come_where_they_are_missing_and_go_where_they_are_too_many() {
    let all = [node("a", &[]), node("b", &[("t", "NoSchedule")]), node("c", &[("t", "NoExecute")])];
    for (what, present, create, delete) in [
        ("nothing yet", vec![], vec!["a"], vec![]),
        ("one that waits for its node counts", vec!["a:new:-"], vec![], vec![]),
        ("a former template is not missing", vec!["a:old:a"], vec![], vec![]),
        ("one that goes is waited for", vec!["a:new:ax"], vec![], vec![]),
        ("one that ended and goes is not", vec!["a:new:fx"], vec!["a"], vec![]),
        ("two: the bound stays", vec!["a:new:-", "a:new:p"], vec![], vec!["p0"]),
        ("two: the older stays", vec!["a:new:a", "a:new:a"], vec![], vec!["p1"]),
        ("no longer scheduled there, but there", vec!["a:new:a", "b:new:a"], vec![], vec![]),
        ("evicted", vec!["a:new:a", "c:new:a", "c:new:ax"], vec![], vec!["p1"]),
        ("succeeded", vec!["a:new:s"], vec![], vec!["p0"]),
        ("failed", vec!["a:new:f", "a:new:a"], vec![], vec!["p0"]),
        ("its node is gone", vec!["a:new:a", "z:new:-", "z:new:a", "z:new:-x"], vec![], vec!["p1"]),
    ] {
        let (set, pods) = (one_at_a_time(), pods(&present));
        let observed = observed(&set, &all, &pods);
        let plan = plan(&observed, &mut Backoff::default());
        assert_eq!((plan.create, names(&plan.delete)), (create, delete), "{what}");
    }
}

#[test]
fn while_surging_an_old_pod_stays_until_the_new_one_serves() {
    let all = nodes(&["a"]);
    for (what, present, create, delete) in [
        ("a pod that goes is replaced at once", vec!["a:old:ax"], vec!["a"], vec![]),
        ("old and new: the new one does not serve yet", vec!["a:old:a", "a:new:r"], vec![], vec![]),
        ("the new one serves", vec!["a:old:a", "a:new:a"], vec![], vec!["p0"]),
        ("neither is ready", vec!["a:old:p", "a:new:p"], vec![], vec!["p0"]),
        ("more than one of each", vec!["a:old:a", "a:old:a", "a:new:p", "a:new:p"], vec![], vec!["p3", "p1"]),
    ] {
        let (set, pods) = (set(json!({ "maxUnavailable": 0, "maxSurge": "1%" })), pods(&present));
        let observed = observed(&set, &all, &pods);
        let plan = plan(&observed, &mut Backoff::default());
        assert_eq!((plan.create, names(&plan.delete)), (create, delete), "{what}");
    }
}

#[test]
fn failed_pods_go_after_longer_and_longer_waits_and_say_so() {
    let (set, all, pods) = (one_at_a_time(), nodes(&["a"]), pods(&["a:new:f"]));
    let mut backoff = Backoff::default();
    let at = |seconds: i64, backoff: &mut Backoff| {
        let mut observed = observed(&set, &all, &pods);
        observed.now += SignedDuration::from_secs(seconds);
        let plan = plan(&observed, backoff);
        (plan.delete.len(), plan.events, plan.retry)
    };
    let (deleted, events, retry) = at(0, &mut backoff);
    assert_eq!((deleted, retry), (1, None));
    assert_eq!((events[0].warning, events[0].reason), (true, "FailedDaemonPod"));
    assert_eq!(events[0].message, "Found failed daemon pod ns/p0 on node a, will try to kill it");
    assert_eq!(at(0, &mut backoff), (0, vec![], Some(Duration::from_secs(1))));
    assert_eq!(at(1, &mut backoff).0, 1);
    assert_eq!(at(1, &mut backoff), (0, vec![], Some(Duration::from_secs(2))));
}

#[test]
fn one_look_makes_a_burst_and_no_more() {
    let names: Vec<String> = (0..400).map(|index| format!("n{index:03}")).collect();
    let (set, all) = (one_at_a_time(), names.iter().map(|name| node(name, &[])).collect::<Vec<_>>());
    let observed = observed(&set, &all, &[]);
    assert_eq!(plan(&observed, &mut Backoff::default()).create.len(), BURST);
}
