use super::super::rolling::plan;
use super::*;

/// Four nodes with these pods: the nodes that get one, and the pods that go.
fn rolled(set: &DaemonSet, present: &[&str]) -> (Vec<String>, Vec<String>) {
    let (all, pods) = (nodes(&["a", "b", "c", "d"]), pods(present));
    let observed = observed(set, &all, &pods);
    let plan = plan(&observed);
    let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
    (owned(plan.create), owned(names(&plan.delete)))
}

#[test]
fn without_surge_old_pods_go_as_far_as_they_may_be_missed() {
    let old = ["a:old:a", "b:old:a", "c:old:a", "d:old:a"];
    for (unavailable, present, deleted) in [
        (json!(1), old, vec!["p0"]),
        (json!("50%"), old, vec!["p0", "p1"]),
        (json!("1%"), old, vec!["p0"]),
        (json!(0), old, vec!["p0"]),
        (json!(9), old, vec!["p0", "p1", "p2", "p3"]),
        (json!(1), ["a:new:r", "b:old:a", "c:old:a", "d:old:a"], vec![]),
        (json!(1), ["a:new:a", "b:old:a", "c:old:a", "d:old:a"], vec!["p1"]),
        (json!(1), ["a:old:ax", "b:old:a", "c:old:a", "d:old:a"], vec![]),
        // Unavailable pods go at once, and then no available one does.
        (json!(1), ["a:old:a", "b:old:r", "c:old:p", "d:old:a"], vec!["p1", "p2"]),
        (json!(3), ["a:old:a", "b:old:r", "c:old:p", "d:old:a"], vec!["p1", "p2", "p0"]),
        (json!(1), ["a:new:a", "b:new:a", "c:new:a", "d:new:a"], vec![]),
    ] {
        let set = set(json!({ "maxUnavailable": unavailable, "maxSurge": 0 }));
        let expected: Vec<String> = deleted.into_iter().map(str::to_owned).collect();
        assert_eq!(rolled(&set, &present), (vec![], expected), "{unavailable} {present:?}");
    }
    // A node without a pod is one that is missed.
    let missing = rolled(&one_at_a_time(), &old[..3]);
    assert_eq!(missing, (vec![], vec![]));
}

#[test]
fn with_surge_new_pods_come_first() {
    for (surge, present, created, deleted) in [
        (json!(1), vec!["a:old:a", "b:old:a", "c:old:a", "d:old:a"], vec!["a"], vec![]),
        (json!("50%"), vec!["a:old:a", "b:old:a", "c:old:a", "d:old:a"], vec!["a", "b"], vec![]),
        (json!(1), vec!["a:old:a", "a:new:r", "b:old:a", "c:old:a", "d:old:a"], vec![], vec![]),
        (json!(1), vec!["a:old:a", "a:new:a", "b:old:a", "c:old:a", "d:old:a"], vec!["b"], vec!["p0"]),
        (json!(1), vec!["a:new:a", "b:old:p", "c:old:a", "d:old:a"], vec!["b", "c"], vec![]),
    ] {
        let set = set(json!({ "maxUnavailable": 0, "maxSurge": surge }));
        let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rolled(&set, &present), (owned(created), owned(deleted)), "{surge} {present:?}");
    }
}

#[test]
fn with_surge_nodes_that_should_not_run_it_lose_it_when_the_others_serve() {
    let set = set(json!({ "maxUnavailable": 0, "maxSurge": 1 }));
    let all = [node("a", &[("t", "NoSchedule")]), node("b", &[])];
    for (present, created, deleted) in [
        (vec!["a:old:a", "b:new:r"], vec![], vec![]),
        (vec!["a:old:a", "b:new:a"], vec![], vec!["p0"]),
        (vec!["a:old:p", "b:new:r"], vec![], vec!["p0"]),
        (vec!["a:old:a", "b:old:a"], vec!["b"], vec!["p0"]),
    ] {
        let pods = pods(&present);
        let observed = observed(&set, &all, &pods);
        let plan = plan(&observed);
        assert_eq!((plan.create, names(&plan.delete)), (created, deleted), "{present:?}");
    }
}

#[test]
fn on_delete_nothing_is_replaced() {
    let mut set = one_at_a_time();
    set.spec.update_strategy.as_mut().unwrap().type_ = Some("OnDelete".into());
    assert_eq!(rolled(&set, &["a:old:p", "b:old:a", "c:old:a", "d:old:a"]), (vec![], vec![]));
}

#[test]
fn the_generation_of_the_template_tells_new_pods_too() {
    let mut before = pods(&["a:old:a"]);
    let labels = before[0].metadata.labels.as_mut().unwrap();
    labels.insert("pod-template-generation".into(), "7".into());
    let (set, all) = (one_at_a_time(), nodes(&["a"]));
    assert!(plan(&observed(&set, &all, &before)).is_empty());
}
