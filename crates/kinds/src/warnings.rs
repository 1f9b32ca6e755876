//! Warnings of kube-apiserver about a written object. The object is stored as it is, and the writer is told.

mod pod;
mod service;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::{at, items, text};
use setpoint_api::cause::Path;
use setpoint_api::kind::GroupKind;
use setpoint_api::{go_format, name};
use setpoint_machinery::structural::Structural;

/// Warnings about an object that is about to be stored; `old` is what it replaces.
pub fn of(kind: &GroupKind, custom: bool, new: &Value, old: Option<&Value>) -> Vec<String> {
    if custom {
        return finalizers(new, old);
    }
    let changed = || old.is_none_or(|old| at(old, "metadata.generation") != at(new, "metadata.generation"));
    let template = |path: &str| {
        let path = Path::new(path);
        if changed() { pod::warnings(&path, at(new, path.as_str())) } else { Vec::new() }
    };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Service") => service::warnings(new),
        ("", "ServiceAccount") if old.is_none_or(|old| !has_annotation(old, ENFORCE_MOUNTABLE)) => {
            old_annotation(
                new,
                ENFORCE_MOUNTABLE,
                "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets",
            )
        }
        ("", "PersistentVolumeClaim") => old_annotation(
            new,
            STORAGE_CLASS,
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        ("", "Pod") if old.is_none() => pod::warnings(&Path::default(), new),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job")
        | ("", "ReplicationController") => template("spec.template"),
        ("batch", "CronJob") => template("spec.jobTemplate.spec.template"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(new, old),
        _ => Vec::new(),
    }
}

const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn has_annotation(object: &Value, name: &str) -> bool {
    at(object, "metadata.annotations").get(name).is_some()
}

/// The warning about an annotation that something else replaces.
fn old_annotation(object: &Value, name: &str, words: &str) -> Vec<String> {
    let path = Path::new("metadata.annotations").key(name);
    has_annotation(object, name).then(|| format!("{path}: {words}")).into_iter().collect()
}

/// Formats that nobody checks and sets of what cannot be told apart, where they are new.
fn definition(new: &Value, old: Option<&Value>) -> Vec<String> {
    let of = |definition: &Value| -> Vec<String> {
        let (mut formats, mut sets) = (Vec::new(), std::collections::BTreeSet::new());
        for version in items(definition, "spec.versions") {
            let structural = Structural::read(at(version, "schema.openAPIV3Schema"));
            let unknown = structural.unknown_formats();
            formats.extend(
                unknown.iter().map(|format| format!("unrecognized format {}", go_format::quote(format))),
            );
            sets.extend(structural.sets_of_containers().into_iter().map(|kind| {
                format!(
                    "x-kubernetes-list-type: set for items of type {} is not supported by server-side apply or CEL \
                     validation rules",
                    go_format::quote(&kind)
                )
            }));
        }
        formats.into_iter().chain(sets).collect()
    };
    let before = old.map(of).unwrap_or_default();
    of(new).into_iter().filter(|warning| !before.contains(warning)).collect()
}

/// Finalizers of custom objects had better say whose they are.
fn finalizers(new: &Value, old: Option<&Value>) -> Vec<String> {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let list = |object: &Value| -> std::collections::BTreeSet<String> {
        items(object, "metadata.finalizers").iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = old.map(list).unwrap_or_default();
    let mut warnings = Vec::new();
    for finalizer in list(new).difference(&before) {
        let mut warn = |words: &str| {
            warnings.push(format!("metadata.finalizers: {}: {words}", go_format::quote(finalizer)));
        };
        name::qualified_name(finalizer).iter().for_each(|words| warn(words));
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer.as_str()) {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            warn(&format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer \
                 writers"
            ));
        }
    }
    warnings
}

/// Keeps the first of owner references that are the same, and says of which uids there were several.
pub fn single_owners(object: &mut Value) -> Option<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)?;
    let (mut kept, mut doubled): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    // A body holds tens of thousands of owners: comparing each with each would take minutes.
    let (mut seen, mut told) = (BTreeSet::new(), BTreeSet::new());
    for owner in owners.drain(..) {
        if seen.insert(owner.to_string()) {
            kept.push(owner);
            continue;
        }
        let uid = text(&owner, "uid").to_owned();
        if told.insert(uid.clone()) {
            doubled.push(uid);
        }
    }
    *owners = kept;
    (!doubled.is_empty()).then(|| doubled.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finalizer_that_was_there_is_not_new() {
        let object = |list: Value| json!({"metadata": {"finalizers": list}});
        let kind = GroupKind::new("example.com", "Widget");
        let new = object(json!(["a.b/c", "plain", "dotted.name"]));
        assert_eq!(of(&kind, true, &new, None).len(), 2);
        assert_eq!(of(&kind, true, &new, Some(&object(json!(["plain"])))).len(), 1);
    }

    #[test]
    fn owners_are_told_apart_by_everything() {
        let owner = |uid: &str| json!({"uid": uid, "name": "n"});
        let mut object = json!({"metadata": {"ownerReferences": [owner("1"), owner("2"), owner("1")]}});
        assert_eq!(single_owners(&mut object), Some("1".to_owned()));
        assert_eq!(object["metadata"]["ownerReferences"], json!([owner("1"), owner("2")]));
    }

    /// Compared each with each, they would take longer than anybody waits for a test.
    #[test]
    fn a_body_full_of_owners_is_read_once() {
        let owners: Vec<Value> = (0..60_000).map(|at| json!({"uid": at.to_string(), "name": "n"})).collect();
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(owners[7].clone());
        assert_eq!(single_owners(&mut object), Some("7".to_owned()));
        assert_eq!(object["metadata"]["ownerReferences"].as_array().unwrap().len(), 60_000);
    }
}
