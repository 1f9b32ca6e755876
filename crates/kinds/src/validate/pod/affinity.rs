//! Affinity to nodes and to other pods.

use serde_json::Value;

use crate::access::{at, int, items, text};
use crate::validate::check::Causes;
use crate::validate::meta;
use setpoint_api::cause::Path;
use setpoint_api::name;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(causes: &mut Causes, affinity: &Value, path: &Path) {
    node(causes, at(affinity, "nodeAffinity"), &path.child("nodeAffinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        pods(causes, at(affinity, kind), &path.child(kind));
    }
}

fn node(causes: &mut Causes, affinity: &Value, path: &Path) {
    let required = at(affinity, REQUIRED);
    if !required.is_null() {
        node_selector(causes, required, &path.child(REQUIRED));
    }
    for (index, one) in items(affinity, PREFERRED).iter().enumerate() {
        let path = path.child(PREFERRED).index(index);
        weight(causes, one, &path);
        term(causes, at(one, "preference"), Values::Free, &path.child("preference"));
    }
}

/// A node selector, wherever it stands.
pub(in crate::validate) fn node_selector(causes: &mut Causes, selector: &Value, path: &Path) {
    let path = path.child("nodeSelectorTerms");
    let terms = items(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        causes.required(&path, "must have at least one node selector term");
    }
    for (index, one) in terms.iter().enumerate() {
        term(causes, one, Values::Labels, &path.index(index));
    }
}

/// The values that a term may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Labels,
    Free,
}

fn weight(causes: &mut Causes, one: &Value, path: &Path) {
    let weight = int(one, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        causes.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

/// Checks a term. Required terms are matched against real labels; preferred terms may say anything.
fn term(causes: &mut Causes, term: &Value, values: Values, path: &Path) {
    for (index, one) in items(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        requirement(causes, one, &path);
        for (at, value) in items(one, "values").iter().filter_map(Value::as_str).enumerate() {
            if values == Values::Labels {
                causes.wrong(&path.child("values").index(at), value, &name::label_value(value));
            }
        }
    }
    for (index, one) in items(term, "matchFields").iter().enumerate() {
        field_requirement(causes, one, &path.child("matchFields").index(index));
    }
}

/// Only the name of a node is a field that a term may match.
fn field_requirement(causes: &mut Causes, one: &Value, path: &Path) {
    let values = items(one, "values");
    match text(one, "operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            causes.required(&path.child("values"), detail);
        }
        "In" | "NotIn" => {}
        other => causes.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(one, "key");
    if key != "metadata.name" {
        return causes.invalid(&path.child("key"), key, "not a valid field selector key");
    }
    for (at, value) in values.iter().filter_map(Value::as_str).enumerate() {
        causes.wrong(&path.child("values").index(at), value, &name::dns1123_subdomain(value));
    }
}

fn requirement(causes: &mut Causes, one: &Value, path: &Path) {
    let values = items(one, "values");
    match text(one, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(&path.child("values"), detail);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.required(&path.child("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => causes.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(one, "key");
    causes.wrong(&path.child("key"), key, &name::qualified_name(key));
}

fn pods(causes: &mut Causes, affinity: &Value, path: &Path) {
    for (index, one) in items(affinity, REQUIRED).iter().enumerate() {
        pod_term(causes, one, &path.child(REQUIRED).index(index));
    }
    for (index, one) in items(affinity, PREFERRED).iter().enumerate() {
        let path = path.child(PREFERRED).index(index);
        weight(causes, one, &path);
        pod_term(causes, at(one, "podAffinityTerm"), &path.child("podAffinityTerm"));
    }
}

/// Labels of the pod itself that a selector goes by.
pub(super) fn label_keys(causes: &mut Causes, one: &Value, lists: &[&str], path: &Path) {
    let selector = at(one, "labelSelector");
    for list in lists {
        let path = path.child(list);
        if selector.is_null() && !items(one, list).is_empty() {
            causes.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in items(one, list).iter().filter_map(Value::as_str).enumerate() {
            causes.wrong(&path.index(index), key, &name::qualified_name(key));
        }
    }
    let mut selected: Vec<&str> =
        crate::access::entries(selector, "matchLabels").map(|(key, _)| &**key).collect();
    let keys: Vec<&str> = items(one, "matchLabelKeys").iter().filter_map(Value::as_str).collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(index) = keys.iter().rposition(|one| *one == key).filter(|_| selected.contains(&key)) {
            causes.invalid(&path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        selected.push(key);
    }
    for (index, key) in keys.iter().enumerate() {
        if items(one, "mismatchLabelKeys").iter().any(|other| other == key) && lists.len() > 1 {
            let path = path.child("matchLabelKeys").index(index);
            causes.invalid(&path, *key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

fn pod_term(causes: &mut Causes, term: &Value, path: &Path) {
    causes.extend(meta::label_selector(at(term, "labelSelector"), &path.child("labelSelector")));
    causes.extend(meta::label_selector(at(term, "namespaceSelector"), &path.child("namespaceSelector")));
    for namespace in items(term, "namespaces").iter().filter_map(Value::as_str) {
        causes.wrong(&path.child("namespace"), namespace, &name::dns1123_label(namespace));
    }
    label_keys(causes, term, &["matchLabelKeys", "mismatchLabelKeys"], path);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        causes.required(&path.child("topologyKey"), "can not be empty");
    }
    causes.wrong(&path.child("topologyKey"), key, &name::qualified_name(key));
}
