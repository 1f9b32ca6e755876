//! The cells that many rows share, and the rows of small kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::age::age;
use crate::access::{at, entries, int, items, text, truth};
use setpoint_api::selector::LabelSelector;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";

pub(super) fn name(object: &Value) -> Value {
    text(object, "metadata.name").into()
}

pub(super) fn created(object: &Value, now: Timestamp) -> Value {
    age(object, "metadata.creationTimestamp", now).into()
}

pub(super) fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// A map of labels as `a=b,c=d`.
pub(super) fn labels(labels: &Value) -> Value {
    let all: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(&all.join(","))
}

/// A selector in text form; `<none>` where it selects nothing or everything.
pub(super) fn selector(selector: &Value) -> Value {
    match LabelSelector::from_json(selector) {
        Err(_) => "<error>".into(),
        Ok(selector) => match selector.to_string() {
            text if text.is_empty() => "<none>".into(),
            text => text.into(),
        },
    }
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), created(object, now)]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "status.phase").into(), created(object, now)]
}

fn count(object: &Value, path: &str) -> usize {
    entries(object, path).count()
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "type").into(), count(object, "data").into(), created(object, now)]
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    let entries = count(object, "data") + count(object, "binaryData");
    vec![name(object), entries.into(), created(object, now)]
}

/// The first three, and how many more.
fn first_three(all: &[String], none: &str) -> Value {
    match all.len() {
        0 => none.into(),
        1..=3 => all.join(",").into(),
        more => format!("{} + {} more...", all[..3].join(","), more - 3).into(),
    }
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(object, "subsets") {
        let addresses = items(subset, "addresses").iter().map(|address| text(address, "ip"));
        let ports = items(subset, "ports");
        if ports.is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in ports {
            let port = int(port, "port").unwrap_or_default();
            all.extend(addresses.clone().map(|ip| join_host_port(ip, port)));
        }
    }
    let none = if items(object, "subsets").is_empty() { NONE } else { "" };
    vec![name(object), first_three(&all, none), created(object, now)]
}

fn join_host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = items(object, "ports")
        .iter()
        .map(|port| match (int(port, "port"), at(port, "name").as_str()) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<String> = items(object, "endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "addresses"))
        .map(|address| address.as_str().unwrap_or_default().to_owned())
        .collect();
    let shown = |all: &[String]| match first_three(all, UNSET) {
        Value::String(text) if text.is_empty() => UNSET.into(),
        shown => shown,
    };
    vec![
        name(object),
        text(object, "addressType").into(),
        shown(&ports),
        shown(&addresses),
        created(object, now),
    ]
}

fn balancer_addresses(object: &Value) -> String {
    let all: BTreeSet<&str> = items(object, "status.loadBalancer.ingress")
        .iter()
        .map(|one| if text(one, "ip").is_empty() { text(one, "hostname") } else { text(one, "ip") })
        .filter(|address| !address.is_empty())
        .collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let external: Vec<&str> = items(object, "spec.externalIPs").iter().filter_map(Value::as_str).collect();
    let kind = text(object, "spec.type");
    let outside = match kind {
        "ClusterIP" | "NodePort" => or_none(&external.join(",")),
        "LoadBalancer" => {
            let mut all = balancer_addresses(object);
            if !external.is_empty() {
                let comma = if all.is_empty() { "" } else { "," };
                all = format!("{all}{comma}{}", external.join(","));
            }
            if all.is_empty() { "<pending>".into() } else { all.into() }
        }
        "ExternalName" => text(object, "spec.externalName").into(),
        _ => "<unknown>".into(),
    };
    let ports: Vec<String> = items(object, "spec.ports").iter().map(service_port).collect();
    let inside = items(object, "spec.clusterIPs").first().and_then(Value::as_str).unwrap_or_default();
    vec![
        name(object),
        kind.into(),
        or_none(inside),
        outside,
        or_none(&ports.join(",")),
        created(object, now),
        labels(at(object, "spec.selector")),
    ]
}

fn service_port(port: &Value) -> String {
    let (number, protocol) = (int(port, "port").unwrap_or_default(), text(port, "protocol"));
    match int(port, "nodePort") {
        Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

pub(super) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = items(object, "status.conditions").iter().rev().find(|one| text(one, "type") == "Ready");
    let mut status = match ready.map(|one| text(one, "status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if truth(object, "spec.unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let roles: BTreeSet<&str> = entries(object, "metadata.labels")
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let info = at(object, "status.nodeInfo");
    let known = |field: &str| match text(info, field) {
        "" => "<unknown>".to_owned(),
        text => text.to_owned(),
    };
    let mut kernel = known("kernelVersion");
    if !text(info, "architecture").is_empty() {
        kernel = format!("{kernel} ({})", text(info, "architecture"));
    }
    let address = |kind: &str| {
        let found = items(object, "status.addresses").iter().find(|one| text(one, "type") == kind);
        found.map_or(NONE.into(), |one| text(one, "address").into())
    };
    vec![
        name(object),
        status.into(),
        or_none(&roles.into_iter().collect::<Vec<_>>().join(",")),
        created(object, now),
        text(info, "kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        known("osImage").into(),
        kernel.into(),
        known("containerRuntimeVersion").into(),
    ]
}

/// The first of several paths that has something.
fn either<'a>(object: &'a Value, paths: &[&str]) -> &'a str {
    paths.iter().map(|path| text(object, path)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Both groups' events: the same things under other names.
pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let since = |paths: &[&str]| {
        paths.iter().find(|path| !at(object, path).is_null()).map(|path| age(object, path, now))
    };
    let first = since(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]);
    let first = first.unwrap_or_else(|| "<unknown>".to_owned());
    let last = since(&["series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp"]);
    let count = int(object, "series.count")
        .or_else(|| int(object, "count"))
        .or_else(|| int(object, "deprecatedCount"))
        .filter(|count| *count != 0)
        .unwrap_or(1);
    let about = if at(object, "regarding").is_null() { "involvedObject" } else { "regarding" };
    let about = at(object, about);
    let kind = text(about, "kind").to_lowercase();
    let target = match text(about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = either(
        object,
        &["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"],
    );
    let host = either(object, &["source.host", "deprecatedSource.host", "reportingInstance"]);
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        last.unwrap_or_else(|| first.clone()).into(),
        text(object, "type").into(),
        text(object, "reason").into(),
        target.into(),
        text(about, "fieldPath").into(),
        source.into(),
        either(object, &["message", "note"]).trim().into(),
        first.into(),
        count.into(),
        name(object),
    ]
}

fn access_modes(modes: &[Value]) -> Value {
    let short: Vec<&str> = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(long, _)| modes.iter().any(|mode| mode == long))
    .map(|(_, short)| *short)
    .collect();
    short.join(",").into()
}

fn phase(object: &Value) -> Value {
    let deleted = !at(object, "metadata.deletionTimestamp").is_null();
    if deleted { "Terminating".into() } else { text(object, "status.phase").into() }
}

fn or_unset(object: &Value, path: &str) -> Value {
    at(object, path).as_str().unwrap_or(UNSET).into()
}

/// The class of a volume or claim: an old annotation wins over the field.
fn class<'a>(object: &'a Value, field: &str) -> &'a str {
    let annotation = at(object, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class");
    annotation.and_then(Value::as_str).unwrap_or_else(|| text(object, field))
}

fn quantity(object: &Value, path: &str) -> Value {
    at(object, path).as_str().unwrap_or("0").into()
}

pub(super) fn persistent_volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = at(object, "spec.claimRef");
    let claim = if claim.is_null() {
        String::new()
    } else {
        format!("{}/{}", text(claim, "namespace"), text(claim, "name"))
    };
    vec![
        name(object),
        quantity(object, "spec.capacity.storage"),
        access_modes(items(object, "spec.accessModes")),
        text(object, "spec.persistentVolumeReclaimPolicy").into(),
        phase(object),
        claim.into(),
        class(object, "spec.storageClassName").into(),
        or_unset(object, "spec.volumeAttributesClassName"),
        text(object, "status.reason").into(),
        created(object, now),
        or_unset(object, "spec.volumeMode"),
    ]
}

pub(super) fn persistent_volume_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(object, "spec.volumeName").is_empty();
    let capacity = if bound { quantity(object, "status.capacity.storage") } else { "".into() };
    let modes = if bound { access_modes(items(object, "status.accessModes")) } else { "".into() };
    vec![
        name(object),
        phase(object),
        text(object, "spec.volumeName").into(),
        capacity,
        modes,
        class(object, "spec.storageClassName").into(),
        or_unset(object, "spec.volumeAttributesClassName"),
        created(object, now),
        or_unset(object, "spec.volumeMode"),
    ]
}

pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in entries(object, "status.hard") {
        let used = at(object, "status.used").get(resource).and_then(Value::as_str).unwrap_or("0");
        let line = format!("{resource}: {used}/{}", hard.as_str().unwrap_or("0"));
        if resource.starts_with("limits.") { &mut limits } else { &mut requests }.push(line);
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), created(object, now)]
}

pub(super) fn pod_disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let amount = |path: &str| match at(object, path) {
        Value::Null => "N/A".into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    };
    vec![
        name(object),
        amount("spec.minAvailable"),
        amount("spec.maxUnavailable"),
        int(object, "status.disruptionsAllowed").unwrap_or_default().into(),
        created(object, now),
    ]
}

pub(super) fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let rules = items(object, "spec.rules");
    let hosts: Vec<&str> =
        rules.iter().map(|rule| text(rule, "host")).filter(|host| !host.is_empty()).collect();
    let shown = match hosts.len() {
        0 => "*".to_owned(),
        many if many >= 3 && rules.len() > 3 => {
            format!("{} + {} more...", hosts[..3].join(","), rules.len() - 3)
        }
        _ => hosts.join(","),
    };
    let ports = if items(object, "spec.tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        at(object, "spec.ingressClassName").as_str().unwrap_or(NONE).into(),
        shown.into(),
        balancer_addresses(object).into(),
        ports.into(),
        created(object, now),
    ]
}

pub(super) fn named_default(object: &Value, annotations: &[&str]) -> Value {
    let marked = annotations.iter().any(|annotation| {
        at(object, "metadata.annotations").get(*annotation).and_then(Value::as_str) == Some("true")
    });
    let name = text(object, "metadata.name");
    if marked { format!("{name} (default)").into() } else { name.into() }
}

pub(super) fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameters = at(object, "spec.parameters");
    let parameters = if parameters.is_null() {
        NONE.to_owned()
    } else {
        let group = at(parameters, "apiGroup").as_str().map_or(String::new(), |group| format!(".{group}"));
        format!("{}{group}/{}", text(parameters, "kind"), text(parameters, "name"))
    };
    vec![
        named_default(object, &["ingressclass.kubernetes.io/is-default-class"]),
        text(object, "spec.controller").into(),
        parameters.into(),
        created(object, now),
    ]
}

pub(super) fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector(at(object, "spec.podSelector")), created(object, now)]
}

fn joined(object: &Value, path: &str) -> String {
    items(object, path).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

pub(super) fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), joined(object, "spec.cidrs").into(), created(object, now)]
}

pub(super) fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = at(object, "spec.parentRef");
    let shown = if parent.is_null() {
        NONE.to_owned()
    } else {
        let part = |before: &str, field: &str| match text(parent, field) {
            "" => String::new(),
            text => format!("{before}{text}"),
        };
        let resource = format!("{}{}", text(parent, "resource"), part(".", "group")).to_lowercase();
        format!("{resource}{}/{}", part("/", "namespace"), text(parent, "name"))
    };
    vec![name(object), shown.into(), created(object, now)]
}
