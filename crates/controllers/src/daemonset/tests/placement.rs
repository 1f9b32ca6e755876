use super::super::placement::{Placement, Verdict, tolerations};
use super::super::template::{node_of, pod_for_node};
use super::*;

fn with_spec(change: &Value) -> DaemonSet {
    let mut value = serde_json::to_value(one_at_a_time()).unwrap();
    for (key, part) in change.as_object().unwrap() {
        value["spec"]["template"]["spec"][key] = part.clone();
    }
    read(value)
}

#[test]
fn taints_and_affinity_say_where_daemons_run_and_stay() {
    let anywhere = json!({});
    let tolerant = json!({ "tolerations": [{ "operator": "Exists" }] });
    let host = json!({ "hostNetwork": true });
    let selective = json!({ "nodeSelector": { "name": "n" } });
    let elsewhere = json!({ "nodeSelector": { "name": "m" } });
    let bound = json!({ "nodeName": "m" });
    let averse = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "name", "operator": "DoesNotExist" }] }] } } } });
    let prefix = |name: &str| format!("node.kubernetes.io/{name}");
    let network = prefix("network-unavailable");
    for (spec, taints, run, keep) in [
        (&anywhere, vec![], true, true),
        (&anywhere, vec![("a", "PreferNoSchedule")], true, true),
        (&anywhere, vec![("a", "NoSchedule")], false, true),
        (&anywhere, vec![("a", "NoExecute")], false, false),
        (&tolerant, vec![("a", "NoSchedule"), ("b", "NoExecute")], true, true),
        (&anywhere, vec![(&*prefix("not-ready"), "NoExecute")], true, true),
        (&anywhere, vec![(&*prefix("not-ready"), "NoSchedule")], false, true),
        (&anywhere, vec![(&*prefix("unreachable"), "NoExecute")], true, true),
        (&anywhere, vec![(&*prefix("disk-pressure"), "NoSchedule")], true, true),
        (&anywhere, vec![(&*prefix("unschedulable"), "NoSchedule")], true, true),
        (&anywhere, vec![(&*network, "NoSchedule")], false, true),
        (&host, vec![(&*network, "NoSchedule")], true, true),
        (&selective, vec![], true, true),
        (&elsewhere, vec![], false, false),
        (&bound, vec![], false, false),
        (&averse, vec![], false, false),
    ] {
        let set = with_spec(spec);
        let verdict = Placement::of(&set).verdict(&node("n", &taints));
        assert_eq!(verdict, Verdict { run, keep }, "{spec} {taints:?}");
    }
}

#[test]
fn the_daemons_tolerations_replace_those_that_end() {
    let limited = json!({ "tolerations": [
        { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 },
        { "key": "mine", "value": "x" }] });
    let set = with_spec(&limited);
    let all = tolerations(super::super::placement::Placement::of(&set).spec.unwrap());
    let keys: Vec<&str> = all.iter().map(|toleration| toleration.key.as_deref().unwrap()).collect();
    let rest = ["unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"];
    let rest = rest.map(|name| format!("node.kubernetes.io/{name}"));
    assert_eq!(keys[..2], ["node.kubernetes.io/not-ready", "mine"]);
    assert_eq!(keys[2..], rest);
    assert!(all.iter().all(|toleration| toleration.toleration_seconds.is_none()));
}

#[test]
fn a_pod_is_made_for_its_node() {
    let affinity = json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": {} }],
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "name", "operator": "Exists" }] }] } } } });
    let set = with_spec(&affinity);
    let pod = pod_for_node(&set, "h", "n");
    assert_eq!(node_of(&pod), Some("n"));
    let value = json!(pod);
    assert_eq!(value["metadata"]["generateName"], "d-");
    assert_eq!(
        value["metadata"]["labels"],
        json!({ "app": "d", "controller-revision-hash": "h", "pod-template-generation": "7" })
    );
    assert_eq!(value["metadata"]["ownerReferences"][0]["kind"], "DaemonSet");
    let node = &value["spec"]["affinity"]["nodeAffinity"];
    assert_eq!(node["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"], 1);
    let terms = &node["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["n"] });
    assert_eq!(*terms, json!([{ "matchFields": [field] }]));
    assert_eq!(node_of(&Pod::default()), None);
}
