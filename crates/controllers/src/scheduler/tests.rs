//! Tables: each filter with its text, spreading, accounting.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerPort, Node, NodeAffinity, NodeCondition, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus,
    PreferredSchedulingTerm, ResourceRequirements, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::resources::{Resources, of_pod};
use super::*;

fn list(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    pairs.iter().map(|(name, amount)| (name.to_string(), Quantity(amount.to_string()))).collect()
}

fn node(name: &str) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: Some(BTreeMap::from([("kubernetes.io/hostname".to_owned(), name.to_owned())])),
            ..Default::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus {
            allocatable: Some(list(&[
                ("cpu", "4"),
                ("memory", "8Gi"),
                ("pods", "10"),
                ("example.com/gpu", "1"),
            ])),
            conditions: Some(vec![NodeCondition {
                type_: "Ready".into(),
                status: "True".into(),
                ..Default::default()
            }]),
            ..Default::default()
        }),
    }
}

fn container(requests: &[(&str, &str)]) -> Container {
    Container {
        name: "c".into(),
        resources: Some(ResourceRequirements { requests: Some(list(requests)), ..Default::default() }),
        ..Default::default()
    }
}

fn spec(requests: &[(&str, &str)]) -> PodSpec {
    PodSpec { containers: vec![container(requests)], ..Default::default() }
}

fn pod(name: &str, node: &str, phase: &str, requests: &[(&str, &str)]) -> Pod {
    Pod {
        metadata: ObjectMeta { name: Some(name.into()), namespace: Some("ns".into()), ..Default::default() },
        spec: Some(PodSpec { node_name: Some(node.into()), ..spec(requests) }),
        status: Some(PodStatus { phase: Some(phase.into()), ..Default::default() }),
    }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: Some(values.iter().map(|value| value.to_string()).collect()),
    }
}

fn with_node_affinity(node_affinity: NodeAffinity) -> PodSpec {
    PodSpec {
        affinity: Some(Affinity { node_affinity: Some(node_affinity), ..Default::default() }),
        ..spec(&[])
    }
}

fn choose(nodes: &[Node], spec: &PodSpec) -> Result<String, String> {
    let mut ledger = Ledger::default();
    nodes.iter().for_each(|node| assert!(ledger.node(node)));
    ledger.choose(&PodInfo::of(spec)).map(|info| info.name.clone()).map_err(|why| why.to_string())
}

fn tainted(name: &str, effect: &str) -> Node {
    let mut node = node(name);
    let taint =
        Taint { key: "dedicated".into(), value: Some("db".into()), effect: effect.into(), time_added: None };
    node.spec.as_mut().unwrap().taints = Some(vec![taint]);
    node
}

#[test]
fn each_filter_says_why() {
    let mut cordoned = node("b");
    cordoned.spec.as_mut().unwrap().unschedulable = Some(true);
    let mut silent = node("b");
    silent.status.as_mut().unwrap().conditions = None;
    let selecting =
        PodSpec { node_selector: Some(BTreeMap::from([("disk".into(), "ssd".into())])), ..spec(&[]) };
    let storage = "ephemeral-storage";
    for (nodes, spec, expected) in [
        (vec![], spec(&[]), "no nodes available to schedule pods"),
        (vec![node("a")], spec(&[("cpu", "5")]), "0/1 nodes are available: 1 Insufficient cpu."),
        (
            vec![node("a"), node("b")],
            spec(&[("cpu", "5"), ("memory", "9Gi")]),
            "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient memory.",
        ),
        (
            vec![node("a")],
            spec(&[(storage, "1")]),
            "0/1 nodes are available: 1 Insufficient ephemeral-storage.",
        ),
        (
            vec![node("a")],
            spec(&[("example.com/gpu", "2")]),
            "0/1 nodes are available: 1 Insufficient example.com/gpu.",
        ),
        (
            vec![tainted("a", "NoSchedule"), cordoned, node("c")],
            spec(&[("cpu", "8")]),
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.",
        ),
        (
            vec![tainted("a", "NoExecute")],
            spec(&[]),
            "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
        ),
        (vec![silent], spec(&[]), "0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
        (
            vec![node("a")],
            selecting,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        ),
    ] {
        assert_eq!(choose(&nodes, &spec), Err(expected.to_owned()));
    }
}

#[test]
fn tolerations_let_in() {
    let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
        key: Some(key.into()),
        operator: Some(operator.into()),
        value: Some(value.into()),
        effect: Some(effect.into()),
        toleration_seconds: None,
    };
    for (toleration, admitted) in [
        (toleration("dedicated", "Equal", "db", "NoSchedule"), true),
        (toleration("dedicated", "", "db", ""), true),
        (toleration("dedicated", "Exists", "", "NoSchedule"), true),
        (toleration("", "Exists", "", ""), true),
        (toleration("dedicated", "Equal", "web", "NoSchedule"), false),
        (toleration("other", "Exists", "", ""), false),
        (toleration("dedicated", "Equal", "db", "NoExecute"), false),
        (toleration("dedicated", "Like", "db", ""), false),
    ] {
        let spec = PodSpec { tolerations: Some(vec![toleration.clone()]), ..spec(&[]) };
        assert_eq!(choose(&[tainted("a", "NoSchedule")], &spec).is_ok(), admitted, "{toleration:?}");
    }
}

#[test]
fn required_affinity_reads_labels_and_fields() {
    let mut large = node("large");
    large
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .extend([("cores".into(), "16".into()), ("zone".into(), "a".into())]);
    let nodes = [large, node("small")];
    let by_label = |list: &[NodeSelectorRequirement]| NodeSelectorTerm {
        match_expressions: Some(list.to_vec()),
        match_fields: None,
    };
    let by_field = NodeSelectorTerm {
        match_fields: Some(vec![requirement("metadata.name", "In", &["small"])]),
        match_expressions: None,
    };
    let (in_a, few) = (requirement("zone", "In", &["a", "b"]), requirement("cores", "Lt", &["8"]));
    let (in_z, many) = (requirement("zone", "In", &["z"]), requirement("cores", "Gt", &["8"]));
    for (terms, expected) in [
        (vec![by_label(std::slice::from_ref(&in_a))], Some("large")),
        (vec![by_label(&[requirement("zone", "NotIn", &["a"])])], Some("small")),
        (vec![by_label(&[requirement("zone", "Exists", &[])])], Some("large")),
        (vec![by_label(&[requirement("zone", "DoesNotExist", &[])])], Some("small")),
        (vec![by_label(std::slice::from_ref(&many))], Some("large")),
        (vec![by_label(std::slice::from_ref(&few))], None),
        // Requirements of a term hold together, terms by themselves.
        (vec![by_label(&[in_a, few])], None),
        (vec![by_label(&[in_z]), by_label(&[many])], Some("large")),
        (vec![by_field], Some("small")),
        (vec![NodeSelectorTerm::default()], None),
    ] {
        let required = NodeSelector { node_selector_terms: terms.clone() };
        let spec = with_node_affinity(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
            ..Default::default()
        });
        assert_eq!(choose(&nodes, &spec).ok().as_deref(), expected, "{terms:?}");
    }
}

#[test]
fn pods_spread_by_load_then_by_number() {
    let mut ledger = Ledger::default();
    ["a", "b", "c"].iter().for_each(|name| assert!(ledger.node(&node(name))));
    ledger.pod(&pod("heavy", "a", "Running", &[("cpu", "3")]));
    let spec = spec(&[("cpu", "100m"), ("memory", "128Mi")]);
    let mut placed = BTreeMap::<String, usize>::new();
    for n in 0..8 {
        let chosen = ledger.choose(&PodInfo::of(&spec)).unwrap().name.clone();
        ledger.place(("ns".into(), format!("p{n}")), &chosen, &PodInfo::of(&spec));
        *placed.entry(chosen).or_default() += 1;
    }
    assert_eq!(placed, BTreeMap::from([("b".into(), 4), ("c".into(), 4)]));
}

#[test]
fn preferences_and_soft_taints_weigh_more_than_load() {
    let nodes = [tainted("a", "PreferNoSchedule"), node("b"), node("c")];
    assert_eq!(choose(&nodes, &spec(&[])).unwrap(), "b");
    let preferred = PreferredSchedulingTerm {
        weight: 5,
        preference: NodeSelectorTerm {
            match_expressions: Some(vec![requirement("kubernetes.io/hostname", "In", &["c"])]),
            match_fields: None,
        },
    };
    let spec = with_node_affinity(NodeAffinity {
        preferred_during_scheduling_ignored_during_execution: Some(vec![preferred]),
        ..Default::default()
    });
    assert_eq!(choose(&nodes, &spec).unwrap(), "c");
}

#[test]
fn the_ledger_counts_bound_pods_that_have_not_ended() {
    let mut ledger = Ledger::default();
    ledger.node(&node("a"));
    let three = spec(&[("cpu", "3")]);
    let fits = |ledger: &Ledger| ledger.choose(&PodInfo::of(&three)).is_ok();
    ledger.pod(&pod("p", "a", "Running", &[("cpu", "2")]));
    ledger.pod(&pod("p", "a", "Running", &[("cpu", "2")]));
    assert!(!fits(&ledger));
    ledger.pod(&pod("p", "a", "Succeeded", &[("cpu", "2")]));
    assert!(fits(&ledger));
    ledger.pod(&pod("p", "a", "Running", &[("cpu", "2")]));
    ledger.pod_gone("ns", "p");
    assert!(fits(&ledger));
    // Pods seen before their node, a node that goes and comes back.
    let mut ledger = Ledger::default();
    ledger.pod(&pod("p", "a", "Running", &[("cpu", "2")]));
    assert_eq!(
        ledger.choose(&PodInfo::of(&three)).unwrap_err().message,
        "no nodes available to schedule pods"
    );
    ledger.node(&node("a"));
    assert!(!fits(&ledger));
    ledger.node_gone("a");
    ledger.node(&node("a"));
    assert!(!fits(&ledger));
}

#[test]
fn a_node_takes_only_as_many_pods_as_it_allows() {
    let mut ledger = Ledger::default();
    ledger.node(&node("a"));
    (0..10).for_each(|n| ledger.pod(&pod(&format!("p{n}"), "a", "Running", &[])));
    let why = ledger.choose(&PodInfo::of(&spec(&[]))).unwrap_err().message;
    assert_eq!(why, "0/1 nodes are available: 1 Too many pods.");
}

#[test]
fn a_host_port_is_taken_once() {
    let with_port = |address: &str, protocol: &str| {
        let port = ContainerPort {
            container_port: 80,
            host_port: Some(80),
            host_ip: Some(address.into()),
            protocol: Some(protocol.into()),
            name: None,
        };
        PodSpec {
            containers: vec![Container { ports: Some(vec![port]), ..container(&[]) }],
            ..Default::default()
        }
    };
    let mut ledger = Ledger::default();
    ledger.node(&node("a"));
    ledger.place(("ns".into(), "p".into()), "a", &PodInfo::of(&with_port("127.0.0.1", "TCP")));
    for (address, protocol, free) in [
        ("127.0.0.1", "TCP", false),
        ("", "TCP", false),
        ("127.0.0.2", "TCP", true),
        ("127.0.0.1", "UDP", true),
    ] {
        let chosen = ledger.choose(&PodInfo::of(&with_port(address, protocol))).is_ok();
        assert_eq!(chosen, free, "{address} {protocol}");
    }
}

#[test]
fn a_pod_asks_for_its_hungriest_moment() {
    let init = |requests: &[(&str, &str)], always: bool| Container {
        restart_policy: always.then(|| "Always".into()),
        ..container(requests)
    };
    let cpu = |spec: &PodSpec| of_pod(spec).cpu_millis;
    let two = vec![container(&[("cpu", "1")]), container(&[("cpu", "500m")])];
    for (inits, overhead, expected) in [
        (vec![], None, 1500),
        (vec![init(&[("cpu", "2")], false)], None, 2000),
        (vec![init(&[("cpu", "2")], false)], Some("250m"), 2250),
        (vec![init(&[("cpu", "1")], true)], None, 2500),
        (vec![init(&[("cpu", "1")], true), init(&[("cpu", "2")], false)], None, 3000),
        (vec![init(&[("cpu", "2")], false), init(&[("cpu", "1")], true)], None, 2500),
    ] {
        let spec = PodSpec {
            containers: two.clone(),
            init_containers: Some(inits),
            overhead: overhead.map(|amount| list(&[("cpu", amount)])),
            ..Default::default()
        };
        assert_eq!(cpu(&spec), expected);
    }
    let whole = ResourceRequirements { requests: Some(list(&[("cpu", "4")])), ..Default::default() };
    assert_eq!(cpu(&PodSpec { containers: two, resources: Some(whole), ..Default::default() }), 4000);
    assert_eq!(Resources::from_list(None), Resources::default());
}
