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
        let path = path.child(REQUIRED).child("nodeSelectorTerms");
        let terms = items(required, "nodeSelectorTerms");
        if terms.is_empty() {
            causes.required(&path, "must have at least one node selector term");
        }
        for (index, one) in terms.iter().enumerate() {
            term(causes, one, true, &path.index(index));
        }
    }
    for (index, one) in items(affinity, PREFERRED).iter().enumerate() {
        let path = path.child(PREFERRED).index(index);
        weight(causes, one, &path);
        term(causes, at(one, "preference"), false, &path.child("preference"));
    }
}

fn weight(causes: &mut Causes, one: &Value, path: &Path) {
    let weight = int(one, "weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        causes.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

/// Checks a term. Required terms are matched against real labels; preferred terms may say anything.
fn term(causes: &mut Causes, term: &Value, required: bool, path: &Path) {
    for list in ["matchExpressions", "matchFields"] {
        for (index, one) in items(term, list).iter().enumerate() {
            let path = path.child(list).index(index);
            requirement(causes, one, &path);
            if !required || list == "matchFields" {
                continue;
            }
            for (at, value) in items(one, "values").iter().filter_map(Value::as_str).enumerate() {
                causes.wrong(&path.child("values").index(at), value, &name::label_value(value));
            }
        }
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

fn pod_term(causes: &mut Causes, term: &Value, path: &Path) {
    causes.extend(meta::label_selector(at(term, "labelSelector"), &path.child("labelSelector")));
    causes.extend(meta::label_selector(at(term, "namespaceSelector"), &path.child("namespaceSelector")));
    for namespace in items(term, "namespaces").iter().filter_map(Value::as_str) {
        causes.wrong(&path.child("namespace"), namespace, &name::dns1123_label(namespace));
    }
    let key = text(term, "topologyKey");
    if key.is_empty() {
        causes.required(&path.child("topologyKey"), "can not be empty");
    }
    causes.wrong(&path.child("topologyKey"), key, &name::qualified_name(key));
}
