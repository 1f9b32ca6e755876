//! Pods and pod templates.

use serde_json::{Map, Value, json};

use super::Lit::{Bool, Int, Object, Text};
use super::container::{CONTAINER, RESOURCES};
use super::volume::VOLUME;
use super::{Rule, text};

const POD_SPEC: &[Rule] = &[
    Rule::Call(service_account),
    Rule::Zero("dnsPolicy", Text("ClusterFirst")),
    Rule::Zero("restartPolicy", Text("Always")),
    Rule::Absent("securityContext", Object),
    Rule::Absent("terminationGracePeriodSeconds", Int(30)),
    Rule::Zero("schedulerName", Text("default-scheduler")),
    Rule::List("volumes", VOLUME),
    Rule::List("initContainers", CONTAINER),
    Rule::List("containers", CONTAINER),
    Rule::List("ephemeralContainers", CONTAINER),
    Rule::Resources("overhead"),
    Rule::Pointer("resources", RESOURCES),
];

/// Ports of the host network are the host's.
const HOST_PORTS: &[Rule] = &[Rule::Call(host_ports)];

const STATUS: &[Rule] = &[
    Rule::Call(pod_ips),
    Rule::List("conditions", &[Rule::Shown("lastProbeTime"), Rule::Shown("lastTransitionTime")]),
];

pub(super) const POD: &[Rule] = &[
    Rule::Struct("spec", POD_SPEC),
    Rule::Struct(
        "spec",
        &[
            Rule::Call(grace_period),
            Rule::List("containers", &[Rule::Pointer("resources", &[Rule::Call(requests_from_limits)])]),
            Rule::List("initContainers", &[Rule::Pointer("resources", &[Rule::Call(requests_from_limits)])]),
            Rule::Absent("enableServiceLinks", Bool(true)),
            Rule::Call(host_network),
        ],
    ),
    Rule::Struct("status", STATUS),
];

pub(super) const POD_TEMPLATE_SPEC: &[Rule] =
    &[Rule::Struct("metadata", &[]), Rule::Struct("spec", POD_SPEC)];

/// The old name of the field follows the new one.
fn service_account(spec: &mut Map<String, Value>) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    for field in ["serviceAccountName", "serviceAccount"] {
        if name.is_empty() {
            spec.remove(field);
        } else {
            spec.insert(field.to_owned(), name.clone().into());
        }
    }
}

fn grace_period(spec: &mut Map<String, Value>) {
    let field = "terminationGracePeriodSeconds";
    if spec.get(field).and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert(field.to_owned(), 1.into());
    }
}

fn requests_from_limits(resources: &mut Map<String, Value>) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert(Value::Null);
    if requests.is_null() {
        *requests = json!({});
    }
    if let Value::Object(requests) = requests {
        for (name, amount) in limits {
            requests.entry(name).or_insert(amount);
        }
    }
}

fn host_network(spec: &mut Map<String, Value>) {
    if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
        for containers in ["containers", "initContainers"] {
            super::run(&[Rule::List(containers, HOST_PORTS)], spec);
        }
    }
}

fn host_ports(container: &mut Map<String, Value>) {
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let Value::Object(port) = port else { continue };
        if port.get("hostPort").and_then(Value::as_i64).unwrap_or_default() == 0
            && let Some(number) = port.get("containerPort").cloned()
        {
            port.insert("hostPort".to_owned(), number);
        }
    }
}

/// The one address and the list of addresses agree; the one wins.
fn pod_ips(status: &mut Map<String, Value>) {
    let one = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|ips| ips.get(0)).and_then(|ip| ip.get("ip"));
    let first = first.and_then(Value::as_str).unwrap_or_default().to_owned();
    if one.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    } else if !one.is_empty() && one != first {
        status.insert("podIPs".to_owned(), json!([{"ip": one}]));
    }
}
