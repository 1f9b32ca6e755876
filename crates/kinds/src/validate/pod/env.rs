//! Environment variables.

use serde_json::Value;

use crate::access::{at, text};
use crate::validate::check::{Causes, no_backsteps};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

/// Fields of a pod that a variable may hold.
const FIELDS: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.hostname",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn env(causes: &mut Causes, variables: &[Value], path: &Path) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        causes.named(&path.child("name"), text(variable, "name"), name::env_var_name);
        if !at(variable, "valueFrom").is_null() {
            value_from(causes, variable, &path.child("valueFrom"));
        }
    }
}

fn value_from(causes: &mut Causes, variable: &Value, path: &Path) {
    let from = at(variable, "valueFrom");
    let mut sources = 0;
    for kind in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let source = at(from, kind);
        if source.is_null() {
            continue;
        }
        sources += 1;
        let path = path.child(kind);
        match kind {
            "fieldRef" => field_ref(causes, source, &path, &FIELDS[..9]),
            "resourceFieldRef" => resource_field_ref(causes, source, &path, false),
            "fileKeyRef" => {
                causes.named(&path.child("key"), text(source, "key"), name::env_var_name);
                causes.named(&path.child("volumeName"), text(source, "volumeName"), name::dns1123_label);
                let file = text(source, "path");
                if file.is_empty() {
                    causes.required(&path.child("path"), "");
                }
                no_backsteps(causes, &path.child("path"), file);
            }
            _ => {
                let name = text(source, "name");
                causes.wrong(&path.child("name"), name, &name::dns1123_subdomain(name));
                causes.named(&path.child("key"), text(source, "key"), name::config_map_key);
            }
        }
    }
    let detail = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !text(variable, "value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        "may not have more than one field specified at a time"
    } else {
        return;
    };
    causes.invalid(path, "", detail);
}

/// A reference to a field of the pod; `allowed` are those that can be read here.
pub(super) fn field_ref(causes: &mut Causes, reference: &Value, path: &Path, allowed: &[&str]) {
    if text(reference, "apiVersion").is_empty() {
        return causes.required(&path.child("apiVersion"), "");
    }
    let field = text(reference, "fieldPath");
    let path = path.child("fieldPath");
    if field.is_empty() {
        return causes.required(&path, "");
    }
    let version = text(reference, "apiVersion");
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        return causes.invalid(&path, field, &detail);
    }
    if let Some((map, key)) =
        field.split_once("['").and_then(|(map, key)| Some((map, key.strip_suffix("']")?)))
    {
        return match map {
            "metadata.annotations" => causes.wrong(&path, key, &name::qualified_name(&key.to_lowercase())),
            "metadata.labels" => causes.wrong(&path, key, &name::qualified_name(key)),
            _ => causes.invalid(&path, field, "does not support subscript"),
        };
    }
    if !FIELDS.contains(&field) && !matches!(field, "metadata.labels" | "metadata.annotations") {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        return causes.invalid(&path, field, &detail);
    }
    if !allowed.contains(&field) {
        let mut sorted = allowed.to_vec();
        sorted.sort_unstable();
        causes.push(Cause::not_supported(&path, field, &sorted));
    }
}

pub(super) fn resource_field_ref(causes: &mut Causes, reference: &Value, path: &Path, volume: bool) {
    if volume && text(reference, "containerName").is_empty() {
        return causes.required(&path.child("containerName"), "");
    }
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|prefix| resource.starts_with(prefix));
    if resource.is_empty() {
        causes.required(&path.child("resource"), "");
    } else if !huge {
        causes.one_of(&path.child("resource"), resource, &RESOURCES);
    }
    divisor(causes, reference, resource, &path.child("divisor"));
}

/// A resource is shown in units that suit it.
fn divisor(causes: &mut Causes, reference: &Value, resource: &str, path: &Path) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let Ok(unit) = Quantity::from_json(at(reference, "divisor")) else { return };
    let kind = resource.split_once('.').map_or(resource, |(_, kind)| kind);
    let (known, words): (&[&str], &str) = match kind {
        _ if unit.is_zero() => return,
        "cpu" => (&["1m", "1"], "cpu"),
        "memory" => (&SIZES, "memory"),
        "ephemeral-storage" => (&SIZES, "local ephemeral storage"),
        huge if huge.starts_with("hugepages-") => (&SIZES, "hugepages"),
        _ => return,
    };
    if !known.contains(&&*unit.to_string()) {
        let list = if kind == "cpu" { "1m and 1".to_owned() } else { known.join(", ") };
        let detail = format!("only divisor's values {list} are supported with the {words} resource");
        causes.invalid(path, resource, &detail);
    }
}

pub(super) fn env_from(causes: &mut Causes, sources: &[Value], path: &Path) {
    for (index, source) in sources.iter().enumerate() {
        let at_index = path.index(index);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            causes.wrong(&at_index.child("prefix"), prefix, &name::env_var_name(prefix));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if !at(source, kind).is_null() {
                count += 1;
                let name = text(at(source, kind), "name");
                causes.named(&at_index.child(kind).child("name"), name, name::dns1123_subdomain);
            }
        }
        match count {
            0 => causes.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => causes.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}
