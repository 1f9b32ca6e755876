//! Which fields of a kind a field selector may name, and their values.

use serde_json::Value;

use crate::access::{at, items, text, truth};
use setpoint_api::kind::GroupVersionKind;
use setpoint_api::selector::{FieldSelector, SelectorError};

/// Beside `metadata.name` and, in namespaces, `metadata.namespace`.
const FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "Pod",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
    ),
    ("", "Node", &["spec.unschedulable"]),
    ("", "ReplicationController", &["status.replicas"]),
    ("", "Event", EVENT),
    ("", "Namespace", &["status.phase"]),
    ("", "Secret", &["type"]),
    ("", "Service", &["spec.clusterIP", "spec.type"]),
    ("batch", "Job", &["status.successful"]),
    ("certificates.k8s.io", "CertificateSigningRequest", &["spec.signerName"]),
    ("certificates.k8s.io", "ClusterTrustBundle", &["spec.signerName"]),
    ("certificates.k8s.io", "PodCertificateRequest", &["spec.signerName", "spec.podName", "spec.nodeName"]),
    ("events.k8s.io", "Event", EVENTS),
    ("resource.k8s.io", "ResourceSlice", &["spec.nodeName", "spec.driver", "spec.pool.name"]),
];

const EVENT: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const EVENTS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// The names that the newer group has for fields of events.
const EVENTS_NAMES: &[(&str, &str)] = &[
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.uid", "involvedObject.uid"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("reportingController", "reportingComponent"),
];

/// Refuses fields that the kind does not offer, in Kubernetes' words. `custom` are the paths of a custom
/// resource's `selectableFields`, without the leading dot.
pub fn check(
    kind: &GroupVersionKind,
    namespaced: bool,
    custom: &[String],
    selector: &FieldSelector,
) -> Result<(), SelectorError> {
    for requirement in selector.requirements() {
        let field = &*requirement.field;
        let known = field == "metadata.name"
            || (field == "metadata.namespace" && (namespaced || !has_own_list(kind)))
            || offered(kind).contains(&field)
            || (kind.key() == ("", "Pod") && field == "spec.host")
            || custom.iter().any(|path| path == field);
        if !known {
            return Err(SelectorError(refusal(kind, field)));
        }
    }
    Ok(())
}

fn has_own_list(kind: &GroupVersionKind) -> bool {
    !offered(kind).is_empty()
}

fn refusal(kind: &GroupVersionKind, field: &str) -> String {
    match kind.key() {
        ("", "Pod" | "Node" | "ReplicationController" | "Event" | "Namespace" | "Secret" | "Service")
        | ("events.k8s.io", "Event")
        | ("certificates.k8s.io", _) => format!("field label not supported: {field}"),
        ("resource.k8s.io", "ResourceSlice") => format!("field label not supported for {kind}: {field}"),
        ("batch", "Job") => {
            format!("field label {} not supported for Job", setpoint_api::go_format::quote(field))
        }
        _ => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            setpoint_api::go_format::quote(field)
        ),
    }
}

fn offered(kind: &GroupVersionKind) -> &'static [&'static str] {
    let found = FIELDS.iter().find(|(group, name, _)| *group == kind.group && *name == kind.kind);
    found.map_or(&[], |(_, _, fields)| fields)
}

/// Whether an object satisfies a selector that [`check`] let pass.
pub fn matches(kind: &GroupVersionKind, selector: &FieldSelector, object: &Value) -> bool {
    selector.matches(|field| value(kind, field, object))
}

/// The text that a field selector compares.
pub fn value(kind: &GroupVersionKind, field: &str, object: &Value) -> String {
    match (kind.key(), field) {
        (("", "Pod"), "spec.host") => text(object, "spec.nodeName").to_owned(),
        (("", "Pod"), "spec.hostNetwork") => truth(object, "spec.hostNetwork").to_string(),
        (("", "Pod"), "status.podIPs") => pod_ips(object),
        (("", "Node"), "spec.unschedulable") => truth(object, "spec.unschedulable").to_string(),
        (("batch", "Job"), "status.successful") => number(object, "status.succeeded"),
        (("", "ReplicationController"), "status.replicas") => number(object, "status.replicas"),
        ((_, "Event"), field) => event(field, object),
        (_, field) => plain(at(object, field)),
    }
}

fn number(object: &Value, path: &str) -> String {
    at(object, path).as_i64().unwrap_or_default().to_string()
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn pod_ips(pod: &Value) -> String {
    items(pod, "status.podIPs").first().map_or("", |ip| text(ip, "ip")).to_owned()
}

/// An event may be stored under the names of either group.
fn event(field: &str, object: &Value) -> String {
    let field = EVENTS_NAMES.iter().find(|(name, _)| *name == field).map_or(field, |(_, field)| field);
    let other = match field {
        "reportingComponent" => "reportingController".to_owned(),
        "source" => return source(object),
        field => field.replacen("involvedObject.", "regarding.", 1),
    };
    match text(object, field) {
        "" => text(object, &other).to_owned(),
        text => text.to_owned(),
    }
}

fn source(event: &Value) -> String {
    ["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"]
        .iter()
        .map(|path| text(event, path))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
        .to_owned()
}
