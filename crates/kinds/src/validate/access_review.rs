//! Reviews of access: what a user asks about.

use serde_json::Value;

use super::check::Causes;
use crate::access::{at, is_empty, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

/// Returns the faults of a SubjectAccessReview, SelfSubjectAccessReview or LocalSubjectAccessReview, by its kind.
pub fn access_review(kind: &str, review: &Value) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (path, spec) = (Path::new("spec"), at(review, "spec"));
    let is_own = kind == "SelfSubjectAccessReview";
    let (resource, other) = (at(spec, "resourceAttributes"), at(spec, "nonResourceAttributes"));
    let shown = || match other {
        Value::Null => BadValue::raw("null"),
        other => BadValue::raw(go_struct::line("authorization.NonResourceAttributes", other)),
    };
    if resource.is_null() == other.is_null() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.invalid(&path, shown(), detail);
    }
    if !is_own && is_empty(spec, "user") && is_empty(spec, "groups") {
        causes.invalid(&path.child("user"), "", "at least one of user or group must be specified");
    }
    let at_resource = path.child("resourceAttributes");
    selector(&mut causes, at(resource, "fieldSelector"), &at_resource.child("fieldSelector"), Keys::Fields);
    selector(&mut causes, at(resource, "labelSelector"), &at_resource.child("labelSelector"), Keys::Labels);
    let is_local = kind == "LocalSubjectAccessReview";
    metadata(&mut causes, at(review, "metadata"), is_local);
    if is_local {
        let namespace = text(resource, "namespace");
        if !resource.is_null() && namespace != text(review, "metadata.namespace") {
            causes.invalid(&at_resource.child("namespace"), namespace, "must match metadata.namespace");
        }
        if !other.is_null() {
            let path = path.child("nonResourceAttributes");
            causes.invalid(&path, shown(), "disallowed on this kind of request");
        }
    }
    causes.0
}

/// A review has no metadata of its own.
fn metadata(causes: &mut Causes, metadata: &Value, is_local: bool) {
    let allowed = |field: &str| field == "managedFields" || (is_local && field == "namespace");
    let mut fields = metadata.as_object().into_iter().flatten();
    if fields.any(|(field, value)| !allowed(field) && !value.is_null()) {
        let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
        causes.invalid(&Path::new("metadata"), BadValue::raw(metadata.to_string()), detail);
    }
}

/// The keys of a selector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Fields,
    Labels,
}

fn selector(causes: &mut Causes, selector: &Value, path: &Path, keys: Keys) {
    if selector.is_null() {
        return;
    }
    let (raw, requirements) = (text(selector, "rawSelector"), items(selector, "requirements"));
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => {
            let detail = "may not specified at the same time as requirements";
            causes.invalid(&path.child("rawSelector"), raw, detail);
        }
        (true, true) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            causes.required(&path.child("requirements"), &detail);
        }
        _ => {}
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let path = path.child("requirements").index(index);
        let key = text(requirement, "key");
        if keys == Keys::Fields && key.is_empty() {
            causes.required(&path.child("key"), "must be specified");
        }
        let values = items(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.required(&path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.forbidden(&path.child("values"), detail);
            }
            _ => {}
        }
        if keys == Keys::Labels {
            causes.wrong(&path.child("key"), key, &name::qualified_name(key));
            for (at, value) in values.iter().filter_map(Value::as_str).enumerate() {
                causes.wrong(&path.child("values").index(at), value, &name::label_value(value));
            }
        }
    }
}
