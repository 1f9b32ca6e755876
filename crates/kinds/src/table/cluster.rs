//! The rows of roles, leases, storage classes, admission and certificates.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, human_duration};
use super::cells::{NONE, UNSET, created, labels, name, named_default, or_none};
use crate::access::{at, entries, int, items, text, truth};

pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| -> Value {
        let all: Vec<String> = items(object, "subjects")
            .iter()
            .filter(|subject| text(subject, "kind") == kind)
            .map(|subject| match text(subject, "namespace") {
                namespace if kind == "ServiceAccount" && !namespace.is_empty() => {
                    format!("{namespace}/{}", text(subject, "name"))
                }
                _ => text(subject, "name").to_owned(),
            })
            .collect();
        all.join(", ").into()
    };
    let role = format!("{}/{}", text(object, "roleRef.kind"), text(object, "roleRef.name"));
    vec![
        name(object),
        role.into(),
        created(object, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "spec.holderIdentity").into(), created(object, now)]
}

pub(super) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "provisioner").into(),
        at(object, "reclaimPolicy").as_str().unwrap_or("Delete").into(),
        at(object, "volumeBindingMode").as_str().unwrap_or("Immediate").into(),
        truth(object, "allowVolumeExpansion").into(),
        created(object, now),
    ]
}

pub(super) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "spec.drivers").len().into(), created(object, now)]
}

pub(super) fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "spec.attacher").into(),
        text(object, "spec.source.persistentVolumeName").into(),
        text(object, "spec.nodeName").into(),
        truth(object, "status.attached").into(),
        created(object, now),
    ]
}

pub(super) fn volume_attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let default = ["volumeattributesclass.kubernetes.io/is-default-class"];
    vec![named_default(object, &default), text(object, "driverName").into(), created(object, now)]
}

pub(super) fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        int(object, "value").unwrap_or_default().into(),
        truth(object, "globalDefault").into(),
        created(object, now),
        text(object, "preemptionPolicy").into(),
    ]
}

pub(super) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "handler").into(), created(object, now)]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "webhooks").len().into(), created(object, now)]
}

pub(super) fn policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let rules = items(object, "spec.validations").len() + items(object, "spec.mutations").len();
    let param = at(object, "spec.paramKind");
    let param = if param.is_null() {
        UNSET.to_owned()
    } else {
        format!("{}/{}", text(param, "apiVersion"), text(param, "kind"))
    };
    vec![name(object), rules.into(), param.into(), created(object, now)]
}

pub(super) fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let param = at(object, "spec.paramRef");
    let shown = match (text(param, "name"), text(param, "namespace")) {
        ("", _) if !at(param, "selector").is_null() => go_selector(at(param, "selector")),
        ("", _) => UNSET.to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![name(object), text(object, "spec.policyName").into(), shown.into(), created(object, now)]
}

/// A LabelSelector as the generated Go code prints it.
fn go_selector(selector: &Value) -> String {
    let labels: Vec<String> = entries(selector, "matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = items(selector, "matchExpressions")
        .iter()
        .map(|one| {
            let values: Vec<&str> = items(one, "values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(one, "key"),
                text(one, "operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}",
        labels.join(" ")
    )
}

pub(super) fn certificate_request(object: &Value, now: Timestamp) -> Vec<Value> {
    let has = |kind: &str| items(object, "status.conditions").iter().any(|one| text(one, "type") == kind);
    let mut status = match () {
        () if has("Denied") => "Denied".to_owned(),
        () if has("Approved") => "Approved".to_owned(),
        () => "Pending".to_owned(),
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !text(object, "status.certificate").is_empty() {
        status.push_str(",Issued");
    }
    let wanted = int(object, "spec.expirationSeconds")
        .map_or(NONE.to_owned(), |seconds| human_duration(i128::from(seconds) * 1_000_000_000));
    vec![
        name(object),
        created(object, now),
        or_none(text(object, "spec.signerName")),
        text(object, "spec.username").into(),
        wanted.into(),
        status.into(),
    ]
}

pub(super) fn trust_bundle(object: &Value, _: Timestamp) -> Vec<Value> {
    let signer = text(object, "spec.signerName");
    vec![name(object), if signer.is_empty() { NONE } else { signer }.into()]
}

pub(super) fn pod_certificate(object: &Value, _: Timestamp) -> Vec<Value> {
    let ends = ["Issued", "Denied", "Failed"];
    let state = items(object, "status.conditions")
        .iter()
        .map(|one| text(one, "type"))
        .rfind(|kind| ends.contains(kind));
    let spec = |field: &str| text(at(object, "spec"), field).into();
    vec![
        name(object),
        spec("podName"),
        spec("serviceAccountName"),
        spec("nodeName"),
        spec("signerName"),
        state.unwrap_or("Pending").into(),
        labels(at(object, "spec.unverifiedUserAnnotations")),
    ]
}

pub(super) fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let healthy = items(object, "conditions").iter().find(|one| text(one, "type") == "Healthy");
    let status = healthy.map_or("Unknown", |one| match text(one, "status") {
        "True" => "Healthy",
        _ => "Unhealthy",
    });
    let field = |field: &str| healthy.map_or("", |one| text(one, field)).into();
    vec![name(object), status.into(), field("message"), field("error")]
}

pub(super) fn device_taint_rule(object: &Value, now: Timestamp) -> Vec<Value> {
    let taint = |field: &str| text(at(object, "spec.taint"), field).into();
    let added = age(object, "spec.taint.timeAdded", now).into();
    vec![name(object), taint("key"), taint("value"), taint("effect"), added, created(object, now)]
}

pub(super) fn definition(object: &Value, _: Timestamp) -> Vec<Value> {
    let versions: Vec<String> = items(object, "spec.versions")
        .iter()
        .map(|version| match (truth(version, "storage"), truth(version, "served")) {
            (true, true) => format!("{}(storage)", text(version, "name")),
            (true, false) => format!("{}(storage,unserved)", text(version, "name")),
            (false, true) => text(version, "name").to_owned(),
            (false, false) => format!("{}(unserved)", text(version, "name")),
        })
        .collect();
    let short: Vec<&str> = items(object, "spec.names.shortNames").iter().filter_map(Value::as_str).collect();
    let established = items(object, "status.conditions")
        .iter()
        .any(|one| text(one, "type") == "Established" && text(one, "status") == "True");
    vec![
        name(object),
        text(object, "spec.scope").into(),
        versions.join(",").into(),
        text(object, "metadata.creationTimestamp").into(),
        text(object, "spec.group").into(),
        text(object, "spec.names.kind").into(),
        short.join(",").into(),
        established.into(),
    ]
}

/// Which of these storage classes is the default.
pub(super) fn default_class(classes: &[Value]) -> Option<usize> {
    let marked = |class: &Value| {
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|mark| at(class, "metadata.annotations").get(*mark).and_then(Value::as_str) == Some("true"))
    };
    let candidates = classes.iter().enumerate().filter(|(_, class)| marked(class));
    let newest = candidates.min_by(|(_, a), (_, b)| {
        let time = |class: &Value| text(class, "metadata.creationTimestamp").to_owned();
        time(b).cmp(&time(a)).then_with(|| text(a, "metadata.name").cmp(text(b, "metadata.name")))
    });
    newest.map(|(at, _)| at)
}

pub(super) fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let modes: Vec<&str> =
        items(object, "spec.volumeLifecycleModes").iter().filter_map(Value::as_str).collect();
    let tokens = match at(object, "spec.tokenRequests").as_array() {
        None => UNSET.to_owned(),
        Some(all) => all.iter().map(|one| text(one, "audience")).collect::<Vec<_>>().join(","),
    };
    vec![
        name(object),
        at(object, "spec.attachRequired").as_bool().unwrap_or(true).into(),
        truth(object, "spec.podInfoOnMount").into(),
        truth(object, "spec.storageCapacity").into(),
        tokens.into(),
        truth(object, "spec.requiresRepublish").into(),
        or_none(&modes.join(",")),
        created(object, now),
    ]
}

pub(super) fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = items(object, "status.conditions").iter().find(|one| text(one, "type") == "Dangling");
    vec![
        name(object),
        text(object, "spec.priorityLevelConfiguration.name").into(),
        int(object, "spec.matchingPrecedence").unwrap_or_default().into(),
        or_none(text(object, "spec.distinguisherMethod.type")),
        created(object, now),
        dangling.map_or("?", |one| text(one, "status")).into(),
    ]
}

pub(super) fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let limited = at(object, "spec.limited");
    let number = |path: &str| int(limited, path).map_or(NONE.into(), Value::from);
    vec![
        name(object),
        text(object, "spec.type").into(),
        number("nominalConcurrencyShares"),
        number("limitResponse.queuing.queues"),
        number("limitResponse.queuing.handSize"),
        number("limitResponse.queuing.queueLengthLimit"),
        created(object, now),
    ]
}

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = at(object, "spec.service");
    let service = if service.is_null() {
        "Local".to_owned()
    } else {
        format!("{}/{}", text(service, "namespace"), text(service, "name"))
    };
    let condition = items(object, "status.conditions").iter().find(|one| text(one, "type") == "Available");
    let available =
        condition.map_or("Unknown".to_owned(), |one| match (text(one, "status"), text(one, "reason")) {
            ("True", _) | (_, "") => text(one, "status").to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        });
    vec![name(object), service.into(), available.into(), created(object, now)]
}
