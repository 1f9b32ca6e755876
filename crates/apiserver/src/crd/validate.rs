//! What is wrong with a definition.

use serde_json::Value;
use setpoint_api::cause::{Cause, Path, Shown};
use setpoint_api::name;
use setpoint_api::structural::Structural;

use crate::cel;
use crate::object;

/// Everything that is wrong with a definition; on an update, what it was.
pub(crate) fn validate(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_name(definition, &mut causes);
    check_names(definition, &mut causes);
    check_versions(definition, &mut causes);
    check_schemas(definition, old, &mut causes);
    check_conversion(definition, &mut causes);
    if let Some(old) = old {
        check_change(definition, old, &mut causes);
    }
    causes
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn check_name(definition: &Value, causes: &mut Vec<Cause>) {
    let expected = format!("{}.{}", text(definition, "/spec/names/plural"), text(definition, "/spec/group"));
    let actual = object::name(definition);
    if actual != expected {
        causes.push(Cause::invalid(
            &Path::new("metadata.name"),
            actual,
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let group = text(definition, "/spec/group");
    let path = Path::new("spec.group");
    if group.is_empty() {
        causes.push(Cause::required(&path, ""));
    } else {
        causes.extend(name::dns1123_subdomain(group).iter().map(|error| Cause::invalid(&path, group, error)));
        if !group.contains('.') {
            causes.push(Cause::invalid(&path, group, "should be a domain with at least one dot"));
        }
    }
    match text(definition, "/spec/scope") {
        "" => causes.push(Cause::required(&Path::new("spec.scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let allowed = ["Cluster", "Namespaced"];
            causes.push(Cause::not_supported(&Path::new("spec.scope"), other, &allowed));
        }
    }
}

fn check_names(definition: &Value, causes: &mut Vec<Cause>) {
    let path = Path::new("spec.names");
    let mut label = |field: &str, value: &str| {
        let errors = name::dns1035_label(value);
        causes.extend(errors.iter().map(|error| Cause::invalid(&path.child(field), value, error)));
    };
    for field in ["plural", "singular"] {
        let value = text(definition, &format!("/spec/names/{field}"));
        if !value.is_empty() {
            label(field, value);
        }
    }
    for field in ["kind", "listKind"] {
        let value = text(definition, &format!("/spec/names/{field}"));
        if !value.is_empty() {
            let errors = name::dns1035_label(&value.to_lowercase());
            let told = |error: &String| format!("may have mixed case, but should otherwise match: {error}");
            causes.extend(errors.iter().map(|error| Cause::invalid(&path.child(field), value, &told(error))));
        }
    }
    for field in ["plural", "kind"] {
        if text(definition, &format!("/spec/names/{field}")).is_empty() {
            causes.push(Cause::required(&path.child(field), ""));
        }
    }
    let (kind, list) = (text(definition, "/spec/names/kind"), text(definition, "/spec/names/listKind"));
    if !kind.is_empty() && kind == list {
        let text = "kind and listKind may not be the same";
        causes.push(Cause::invalid(&path.child("listKind"), list, text));
    }
}

fn versions(definition: &Value) -> &[Value] {
    definition.pointer("/spec/versions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn check_versions(definition: &Value, causes: &mut Vec<Cause>) {
    let path = Path::new("spec.versions");
    let all = versions(definition);
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in all.iter().enumerate() {
        let name = text(version, "/name");
        let at = path.index(index).child("name");
        causes.extend(name::dns1035_label(name).iter().map(|error| Cause::invalid(&at, name, error)));
        if seen.contains(&name) {
            let shown = Shown::raw(format!("{name:?}"));
            causes.push(Cause::invalid(&path, shown, "must contain unique version names"));
        }
        seen.push(name);
    }
    let stored = all.iter().filter(|version| version["storage"] == true).count();
    if stored != 1 {
        let shown = Shown::raw(Value::Array(all.to_vec()).to_string());
        causes.push(Cause::invalid(&path, shown, "must have exactly one version marked as storage version"));
    }
}

fn check_schemas(definition: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let all = versions(definition);
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let one = all.windows(2).all(|pair| schema(&pair[0]) == schema(&pair[1]));
    for (index, version) in all.iter().enumerate() {
        let path = Path::new("spec.versions").index(index).child("schema").child("openAPIV3Schema");
        let Some(own) = schema(version).filter(Value::is_object) else {
            causes.push(Cause::required(&path, ""));
            continue;
        };
        let before = old.and_then(|old| versions(old).iter().find(|other| other["name"] == version["name"]));
        if before.and_then(schema).as_ref() == Some(&own) {
            continue;
        }
        let path = if one { Path::new("spec.validation.openAPIV3Schema") } else { path };
        let status = version.pointer("/subresources/status").is_some();
        match Structural::compile_at(&own, &path, status) {
            Err(refusals) => causes.extend(refusals),
            Ok(structural) => {
                causes.extend(cel::Rules::compile(&structural, &path).err().unwrap_or_default())
            }
        }
        if one {
            break;
        }
    }
    if definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)) {
        let text = "must be false in order to use the apiextensions.k8s.io/v1 API; set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.push(Cause::invalid(&Path::new("spec.preserveUnknownFields"), true, text));
    }
}

fn check_conversion(definition: &Value, causes: &mut Vec<Cause>) {
    let path = Path::new("spec.conversion");
    match text(definition, "/spec/conversion/strategy") {
        "None" => {
            if definition.pointer("/spec/conversion/webhook").is_some() {
                let text = "should not be set when strategy is not set to Webhook";
                causes.push(Cause::forbidden(&path.child("webhookClientConfig"), text));
            }
        }
        "Webhook" => {
            if definition.pointer("/spec/conversion/webhook/clientConfig").is_none() {
                let text = "required when strategy is set to Webhook";
                causes.push(Cause::required(&path.child("webhookClientConfig"), text));
            }
        }
        "" => {}
        other => {
            causes.push(Cause::not_supported(&path.child("strategy"), other, &["None", "Webhook"]));
        }
    }
}

fn check_change(definition: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for (pointer, path) in [
        ("/spec/group", "spec.group"),
        ("/spec/scope", "spec.scope"),
        ("/spec/names/kind", "spec.names.kind"),
        ("/spec/names/plural", "spec.names.plural"),
    ] {
        let (new, was) = (text(definition, pointer), text(old, pointer));
        let established = super::is_true(old, "Established");
        if new != was && (established || pointer.ends_with("group") || pointer.ends_with("plural")) {
            causes.push(Cause::invalid(&Path::new(path), new, "field is immutable"));
        }
    }
    let stored = old.pointer("/status/storedVersions").and_then(Value::as_array);
    for name in stored.into_iter().flatten().filter_map(Value::as_str) {
        if !versions(definition).iter().any(|version| version["name"] == name) {
            let text = format!("must appear in spec.versions: {name:?}");
            let path = Path::new("status.storedVersions").index(0);
            causes.push(Cause::invalid(&path, name, text.split(':').next().unwrap_or("")));
        }
    }
}
