//! Object metadata.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::{at, int, items, text, truth};
use crate::facts::Facts;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::go_format::{self, quote};
use setpoint_api::kind::GroupVersion;
use setpoint_api::name;

/// Annotations of an object together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks the metadata of a new object.
pub(super) fn create(facts: &Facts, object: &Value, rule: impl Fn(&str, bool) -> Vec<String>) -> Vec<Cause> {
    let path = Path::new("metadata");
    let metadata = at(object, "metadata");
    let mut causes = Vec::new();
    let base = text(metadata, "generateName");
    if !base.is_empty() {
        let wrong = rule(base, true);
        causes.extend(wrong.iter().map(|one| Cause::invalid(&path.child("generateName"), base, one)));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        causes.push(Cause::required(&path.child("name"), "name or generateName is required"));
    } else {
        let wrong = rule(name, false);
        causes.extend(wrong.iter().map(|one| Cause::invalid(&path.child("name"), name, one)));
    }
    let namespace = text(metadata, "namespace");
    let namespace_path = path.child("namespace");
    match (facts.namespaced, namespace) {
        (true, "") => causes.push(Cause::required(&namespace_path, "")),
        (true, namespace) => {
            let wrong = name::dns1123_label(namespace);
            causes.extend(wrong.iter().map(|one| Cause::invalid(&namespace_path, namespace, one)));
        }
        (false, "") => {}
        (false, _) => causes.push(Cause::forbidden(&namespace_path, "not allowed on this type")),
    }
    causes.extend(generation(metadata, &path));
    causes.extend(labels(at(metadata, "labels"), &path.child("labels")));
    causes.extend(annotations(at(metadata, "annotations"), &path.child("annotations")));
    causes.extend(owner_references(metadata, &path.child("ownerReferences")));
    causes.extend(finalizers(metadata, &path.child("finalizers")));
    causes
}

/// Checks a change of metadata.
pub(super) fn update(object: &Value, old: &Value) -> Vec<Cause> {
    let path = Path::new("metadata");
    let (new, old) = (at(object, "metadata"), at(old, "metadata"));
    let mut causes = Vec::new();
    if !at(old, "deletionTimestamp").is_null() {
        causes.extend(no_new_finalizers(new, old, &path.child("finalizers")));
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        causes.push(Cause::invalid(&path.child("resourceVersion"), "", detail));
    }
    causes.extend(generation(new, &path));
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (value, before) = (at(new, field), at(old, field));
        let nothing = |value: &Value| value.is_null() || value == "";
        if value != before && !(nothing(value) && nothing(before)) {
            causes.push(Cause::invalid(&path.child(field), value, IMMUTABLE));
        }
    }
    causes.extend(labels(at(new, "labels"), &path.child("labels")));
    causes.extend(annotations(at(new, "annotations"), &path.child("annotations")));
    causes.extend(owner_references(new, &path.child("ownerReferences")));
    causes
}

/// The words for a field that never changes.
pub(super) const IMMUTABLE: &str = "field is immutable";

fn generation(metadata: &Value, path: &Path) -> Option<Cause> {
    let generation = int(metadata, "generation").unwrap_or_default();
    let detail = "must be greater than or equal to 0";
    (generation < 0).then(|| Cause::invalid(&path.child("generation"), generation, detail))
}

/// Labels: keys and values.
pub fn labels(labels: &Value, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        causes.extend(name::qualified_name(key).iter().map(|one| Cause::invalid(path, key, one)));
        causes.extend(name::label_value(value).iter().map(|one| Cause::invalid(path, value, one)));
    }
    causes
}

/// Annotations: keys, in any case, and the size of all.
pub fn annotations(annotations: &Value, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        let wrong = name::qualified_name(&key.to_lowercase());
        causes.extend(wrong.iter().map(|one| Cause::invalid(path, key, one)));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_MAX {
        causes.push(Cause::too_long(path, ANNOTATIONS_MAX));
    }
    causes
}

/// kube-apiserver shows all owners once for each controller after the first. Behind this many bytes the rest is left
/// out: ten thousand controllers would take gigabytes.
const SHOWN_OWNERS_MAX: usize = 1 << 20;

fn owner_references(metadata: &Value, path: &Path) -> Vec<Cause> {
    let owners = items(metadata, "ownerReferences");
    let mut causes = Vec::new();
    let mut controller: Option<String> = None;
    let mut shown_bytes = 0;
    for (index, owner) in owners.iter().enumerate() {
        causes.extend(owner_reference(owner, &path.index(index)));
        if truth(owner, "controller") {
            let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    if shown_bytes > SHOWN_OWNERS_MAX {
                        continue;
                    }
                    let shown: Vec<String> = owners.iter().map(show_owner).collect();
                    let shown = format!("[{}]", shown.join(","));
                    shown_bytes += shown.len();
                    let shown = BadValue::raw(shown);
                    causes.push(Cause::invalid(path, shown, &detail));
                }
            }
        }
    }
    causes
}

fn owner_reference(owner: &Value, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    let version = text(owner, "apiVersion");
    let parsed = GroupVersion::parse(version).filter(|one| !one.version.is_empty());
    if version.is_empty() {
        causes.push(Cause::required(&path.child("apiVersion"), "must not be empty"));
    } else if parsed.is_none() {
        let detail = "must be <group>/<version> or <version>";
        causes.push(Cause::invalid(&path.child("apiVersion"), version, detail));
    }
    for field in ["kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            causes.push(Cause::required(&path.child(field), "must not be empty"));
        }
    }
    if version == "v1" && text(owner, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        causes.push(Cause::invalid(path, BadValue::raw(show_owner(owner)), detail));
    }
    causes
}

/// An owner reference as Go's encoder orders its fields.
fn show_owner(owner: &Value) -> String {
    let mut shown: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .iter()
        .map(|field| format!("{}:{}", quote(field), go_format::json(&text(owner, field).into())))
        .collect();
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(truth) = at(owner, field).as_bool() {
            shown.push(format!("{}:{truth}", quote(field)));
        }
    }
    format!("{{{}}}", shown.join(","))
}

fn finalizers(metadata: &Value, path: &Path) -> Vec<Cause> {
    let all: Vec<&str> = items(metadata, "finalizers").iter().filter_map(Value::as_str).collect();
    let mut causes = Vec::new();
    for finalizer in &all {
        let wrong = name::qualified_name(finalizer);
        causes.extend(wrong.iter().map(|one| Cause::invalid(path, *finalizer, one)));
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid(path, at(metadata, "finalizers"), detail));
    }
    causes
}

/// Finalizers of most built-in kinds are Kubernetes' own or have a prefix.
pub(super) fn standard_finalizers(facts: &Facts, object: &Value) -> Vec<Cause> {
    let free = facts.custom
        || matches!(
            facts.group,
            "rbac.authorization.k8s.io" | "node.k8s.io" | "apiextensions.k8s.io" | "apiregistration.k8s.io"
        );
    if free {
        return Vec::new();
    }
    let path = Path::new("metadata.finalizers");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    items(object, "metadata.finalizers")
        .iter()
        .filter_map(Value::as_str)
        .enumerate()
        .filter(|(_, one)| {
            !one.contains('/') && !matches!(*one, "kubernetes" | "orphan" | "foregroundDeletion")
        })
        .map(|(index, one)| Cause::invalid(&path.index(index), one, detail))
        .collect()
}

fn no_new_finalizers(new: &Value, old: &Value, path: &Path) -> Option<Cause> {
    let set = |metadata: &Value| -> BTreeSet<String> {
        items(metadata, "finalizers").iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let extra: Vec<String> = set(new).difference(&set(old)).map(|one| quote(one)).collect();
    (!extra.is_empty()).then(|| {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            extra.join(", ")
        );
        Cause::forbidden(path, &detail)
    })
}

/// A label selector in JSON form.
pub fn label_selector(selector: &Value, path: &Path) -> Vec<Cause> {
    let mut causes = labels(at(selector, "matchLabels"), &path.child("matchLabels"));
    for (index, one) in items(selector, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values = items(one, "values");
        match text(one, "operator") {
            "In" | "NotIn" if values.is_empty() => causes.push(Cause::required(
                &path.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => causes.push(Cause::forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let detail = "not a valid selector operator";
                causes.push(Cause::invalid(&path.child("operator"), other, detail));
            }
        }
        let key = text(one, "key");
        let wrong = name::qualified_name(key);
        causes.extend(wrong.iter().map(|one| Cause::invalid(&path.child("key"), key, one)));
        for (at, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let path = path.child("values").index(at);
            causes.extend(name::label_value(value).iter().map(|one| Cause::invalid(&path, value, one)));
        }
    }
    causes
}

/// A LabelSelector as Go's encoder orders its fields.
pub(super) fn show_selector(selector: &Value) -> String {
    let mut shown = Vec::new();
    if let Some(labels) = at(selector, "matchLabels").as_object().filter(|labels| !labels.is_empty()) {
        shown.push(format!("\"matchLabels\":{}", go_format::json(&Value::Object(labels.clone()))));
    }
    let expressions: Vec<String> = items(selector, "matchExpressions")
        .iter()
        .map(|one| {
            let head = format!(
                "\"key\":{},\"operator\":{}",
                go_format::json(&text(one, "key").into()),
                go_format::json(&text(one, "operator").into())
            );
            match items(one, "values") {
                [] => format!("{{{head}}}"),
                values => {
                    format!("{{{head},\"values\":{}}}", go_format::json(&Value::Array(values.to_vec())))
                }
            }
        })
        .collect();
    if !expressions.is_empty() {
        shown.push(format!("\"matchExpressions\":[{}]", expressions.join(",")));
    }
    format!("{{{}}}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_controllers_are_refused_in_few_bytes() {
        let owners = |count: usize| -> Value {
            let owner = |at: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": at.to_string(), "controller": true});
            json!({"ownerReferences": (0..count).map(owner).collect::<Vec<_>>()})
        };
        let path = Path::new("metadata.ownerReferences");
        assert_eq!(owner_references(&owners(4), &path).len(), 3, "as in kube-apiserver");
        let causes = owner_references(&owners(5000), &path);
        let bytes: usize = causes.iter().map(|cause| cause.message.len()).sum();
        assert!(!causes.is_empty() && bytes < 4 * SHOWN_OWNERS_MAX, "{bytes}");
    }
}
