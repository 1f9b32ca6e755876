//! Ingresses, network policies, endpoint slices.

use serde_json::{Map, Value, json};

use super::Lit::{Object, Text};
use super::Rule;

pub(super) fn rules(kind: &str) -> &'static [Rule] {
    match kind {
        "NetworkPolicy" => NETWORK_POLICY,
        "Ingress" => INGRESS,
        "IngressClass" => {
            &[Rule::Struct("spec", &[Rule::Pointer("parameters", &[Rule::Absent("scope", Text("Cluster"))])])]
        }
        "ServiceCIDR" => &[Rule::Struct("spec", &[]), Rule::Struct("status", &[])],
        _ => &[],
    }
}

const POLICY_PORT: &[Rule] = &[Rule::Absent("protocol", Text("TCP"))];

const NETWORK_POLICY: &[Rule] = &[Rule::Struct(
    "spec",
    &[
        Rule::Struct("podSelector", &[]),
        Rule::Call(policy_types),
        Rule::List("ingress", &[Rule::List("ports", POLICY_PORT)]),
        Rule::List("egress", &[Rule::List("ports", POLICY_PORT)]),
    ],
)];

const SERVICE_PORT: &[Rule] = &[Rule::Pointer("service", &[Rule::Absent("port", Object)])];

const INGRESS: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Pointer("defaultBackend", SERVICE_PORT),
            Rule::List(
                "rules",
                &[Rule::Pointer("http", &[Rule::List("paths", &[Rule::Struct("backend", SERVICE_PORT)])])],
            ),
        ],
    ),
    Rule::Struct("status", &[Rule::Absent("loadBalancer", Object)]),
];

pub(super) const ENDPOINT_SLICE: &[Rule] = &[
    Rule::List("ports", &[Rule::Absent("name", Text("")), Rule::Absent("protocol", Text("TCP"))]),
    Rule::List("endpoints", &[Rule::Struct("conditions", &[])]),
    Rule::Shown("endpoints"),
    Rule::Shown("ports"),
];

fn policy_types(spec: &mut Map<String, Value>) {
    if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}
