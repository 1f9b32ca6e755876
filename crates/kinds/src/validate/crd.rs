//! CustomResourceDefinitions, but for their schemas.
//!
//! The real server moves what all versions have in common to the top of its own type, so that causes name
//! `spec.additionalPrinterColumns` and not `spec.versions[0].…` where the versions agree.

use serde_json::Value;

use super::admission;
use super::check::Causes;
use crate::access::{at, items, remove, text, truth};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;
use setpoint_machinery::structural::{Props, Structural};

const APPROVED: &str = "api-approved.kubernetes.io";

/// Whether all versions have the same value of a field; then the real server moves it to the top. The path of
/// a version's schema is `spec.validation` where this holds for `schema`.
pub fn same_in_all_versions(crd: &Value, field: &str) -> bool {
    let versions = items(crd, "spec.versions");
    versions.iter().all(|version| at(version, field) == at(&versions[0], field))
}

/// Returns the faults of the name, which must say what the object defines.
pub(super) fn name(crd: &Value, name: &str) -> Vec<String> {
    let mut wrong = name::dns1123_subdomain(name);
    if name != format!("{}.{}", text(crd, "spec.names.plural"), text(crd, "spec.group")) {
        wrong.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    wrong
}

pub(super) fn definition(causes: &mut Causes, crd: &Value, old: &Value) {
    spec(causes, crd);
    if !old.is_null() {
        immutable(causes, crd, old);
    }
    stored_versions(causes, crd);
    approval(causes, crd, old);
    if truth(crd, "spec.preserveUnknownFields") && !truth(old, "spec.preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        causes.invalid(&Path::new("spec.preserveUnknownFields"), true, detail);
    }
}

fn immutable(causes: &mut Causes, crd: &Value, old: &Value) {
    let established = items(old, "status.conditions")
        .iter()
        .any(|one| text(one, "type") == "Established" && text(one, "status") == "True");
    if established {
        causes.immutable(crd, old, "spec.scope", text(crd, "spec.scope"));
        causes.immutable(crd, old, "spec.names.kind", text(crd, "spec.names.kind"));
    }
    causes.immutable(crd, old, "spec.group", text(crd, "spec.group"));
    causes.immutable(crd, old, "spec.names.plural", text(crd, "spec.names.plural"));
}

fn spec(causes: &mut Causes, crd: &Value) {
    let (path, spec) = (Path::new("spec"), at(crd, "spec"));
    let group = text(spec, "group");
    let group_path = path.child("group");
    let wrong = name::dns1123_subdomain(group);
    if group.is_empty() {
        causes.required(&group_path, "");
    } else if !wrong.is_empty() {
        causes.invalid(&group_path, group, &wrong.join(","));
    } else if !group.contains('.') {
        causes.invalid(&group_path, group, "should be a domain with at least one dot");
    }
    causes.required_one_of(&path.child("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
    versions(causes, crd, &path);
    names(causes, at(spec, "names"), &path.child("names"));
    if let Some(first) = items(spec, "versions").first() {
        let both = |field: &str| same_in_all_versions(crd, field);
        if both("subresources") {
            subresources(causes, at(first, "subresources"), &path.child("subresources"));
        }
        if both("additionalPrinterColumns") {
            columns(causes, first, &path.child("additionalPrinterColumns"));
        }
        if both("selectableFields") {
            let schema = if both("schema") { at(first, "schema.openAPIV3Schema") } else { &Value::Null };
            let missing = "may only be set when validations.schema is included";
            selectable_fields(causes, first, schema, missing, &path.child("selectableFields"));
        }
    }
    conversion(causes, at(spec, "conversion"), &path.child("conversion"));
}

fn versions(causes: &mut Causes, crd: &Value, path: &Path) {
    let all = items(crd, "spec.versions");
    let list = path.child("versions");
    let shared = |field: &str| same_in_all_versions(crd, field);
    let schema_at_top = shared("schema") && all.first().is_some_and(has_schema);
    for (index, version) in all.iter().enumerate() {
        if !schema_at_top && !has_schema(version) {
            causes.required(&list.index(index).child("schema.openAPIV3Schema"), "");
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    let (mut unique, mut stored) = (true, 0);
    for (index, version) in all.iter().enumerate() {
        let path = list.index(index);
        let name = text(version, "name");
        unique &= !seen.contains(&name);
        seen.push(name);
        stored += usize::from(truth(version, "storage"));
        let wrong = name::dns1035_label(name);
        if !wrong.is_empty() {
            causes.invalid(&path.child("name"), name, &wrong.join(","));
        }
        deprecation(causes, version, &path.child("deprecationWarning"));
        if !shared("subresources") {
            subresources(causes, at(version, "subresources"), &path.child("subresources"));
        }
        if !shared("additionalPrinterColumns") {
            columns(causes, version, &path.child("additionalPrinterColumns"));
        }
        if !shared("selectableFields") {
            let schema = if shared("schema") { &Value::Null } else { at(version, "schema.openAPIV3Schema") };
            let missing = "may only be set when `version.schema.openAPIV3Schema` is not included";
            selectable_fields(causes, version, schema, missing, &path.child("selectableFields"));
        }
    }
    let shown = || BadValue::raw(show_versions(crd));
    if !unique {
        causes.invalid(&list, shown(), "must contain unique version names");
    }
    if stored != 1 {
        causes.invalid(&list, shown(), "must have exactly one version marked as storage version");
    }
    if let Some(first) = all.first() {
        let name = text(first, "name");
        let wrong = name::dns1035_label(name);
        if !name.is_empty() && !wrong.is_empty() {
            causes.invalid(&path.child("version"), name, &wrong.join(","));
        }
    }
}

fn has_schema(version: &Value) -> bool {
    !at(version, "schema.openAPIV3Schema").is_null()
}

/// The versions as the real server's type has them, without what moved to the top.
fn show_versions(crd: &Value) -> String {
    let mut versions: Vec<Value> = items(crd, "spec.versions").to_vec();
    for field in ["schema", "subresources", "additionalPrinterColumns", "selectableFields"] {
        if !versions.is_empty() && same_in_all_versions(crd, field) {
            for version in &mut versions {
                remove(version, field);
            }
        }
    }
    if versions.is_empty() && at(crd, "spec.versions").is_null() {
        return "null".to_owned();
    }
    go_struct::line("[]apiextensions.CustomResourceDefinitionVersion", &Value::Array(versions))
}

fn deprecation(causes: &mut Causes, version: &Value, path: &Path) {
    let Some(warning) = at(version, "deprecationWarning").as_str() else { return };
    if !truth(version, "deprecated") {
        return causes.invalid(path, warning, "can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        causes.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        causes.invalid(path, warning, "must not be an empty string");
    }
}

fn names(causes: &mut Causes, names: &Value, path: &Path) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            causes.required(&path.child(field), "");
        }
    }
    for (field, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let value = text(names, field);
        let wrong = name::dns1035_label(&if mixed { value.to_lowercase() } else { value.to_owned() });
        if value.is_empty() || wrong.is_empty() {
            continue;
        }
        let words = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
        causes.invalid(&path.child(field), value, &format!("{words}{}", wrong.join(",")));
    }
    let labels = |causes: &mut Causes, field: &str| {
        for (index, value) in items(names, field).iter().filter_map(Value::as_str).enumerate() {
            let wrong = name::dns1035_label(value);
            if !wrong.is_empty() {
                causes.invalid(&path.child(field).index(index), value, &wrong.join(","));
            }
        }
    };
    labels(causes, "shortNames");
    let list = text(names, "listKind");
    if !list.is_empty() && text(names, "kind") == list {
        causes.invalid(&path.child("listKind"), list, "kind and listKind may not be the same");
    }
    labels(causes, "categories");
}

/// Whether a path is simple; if not, the cause is noted.
fn simple_path(causes: &mut Causes, value: &str, path: &Path) -> bool {
    let simple = value.starts_with('.');
    if !simple {
        causes.invalid(path, value, "must be a simple json path starting with .");
    }
    simple
}

fn subresources(causes: &mut Causes, subresources: &Value, path: &Path) {
    let scale = at(subresources, "scale");
    if scale.is_null() {
        return;
    }
    for (field, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = path.child("scale").child(field);
        let value = text(scale, field);
        if value.is_empty() {
            causes.required(&path, "");
        } else if simple_path(causes, value, &path) && !value.starts_with(&format!("{under}.")) {
            causes.invalid(&path, value, &format!("should be a json path under {under}"));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let path = path.child("scale.labelSelectorPath");
    if !selector.is_empty()
        && simple_path(causes, selector, &path)
        && !selector.starts_with(".spec.")
        && !selector.starts_with(".status.")
    {
        causes.invalid(&path, selector, "should be a json path under either .spec or .status");
    }
}

fn columns(causes: &mut Causes, version: &Value, path: &Path) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (index, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
        let path = path.index(index);
        if text(column, "name").is_empty() {
            causes.required(&path.child("name"), "");
        }
        match text(column, "type") {
            "" => causes.required(&path.child("type"), TYPES),
            "boolean" | "date" | "integer" | "number" | "string" => {}
            other => causes.invalid(&path.child("type"), other, TYPES),
        }
        let format = text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            let detail = format!("must be one of {}", FORMATS.join(","));
            causes.invalid(&path.child("format"), format, &detail);
        }
        match text(column, "jsonPath") {
            "" => causes.required(&path.child("JSONPath"), ""),
            value => {
                simple_path(causes, value, &path.child("JSONPath"));
            }
        }
    }
}

/// Most fields that selectors may name.
const MAX_SELECTABLE: usize = 8;

fn selectable_fields(causes: &mut Causes, version: &Value, schema: &Value, missing: &str, path: &Path) {
    let all = items(version, "selectableFields");
    if all.is_empty() {
        return;
    }
    if schema.is_null() {
        return causes.invalid(path, "", missing);
    }
    let structural = Structural::read(schema);
    let mut seen: Vec<&str> = Vec::new();
    for (index, field) in all.iter().enumerate() {
        let (at, value) = (path.index(index).child("jsonPath"), text(field, "jsonPath"));
        if value.is_empty() {
            causes.required(&at, "");
            continue;
        }
        let found = match selectable(value, structural.props()) {
            Ok(found) => found,
            Err(error) => {
                causes.invalid(&at, value, &format!("is an invalid path: {error}"));
                continue;
            }
        };
        if value.starts_with(".metadata") {
            causes.invalid(&at, value, "must not point to fields in metadata");
        }
        if !matches!(found.kind.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            causes.invalid(&at, value, detail);
        }
        if seen.contains(&value) {
            causes.push(Cause::duplicate(&at, value));
        } else {
            seen.push(value);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        causes.push(Cause::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}

/// A path that names no declared field.
#[derive(Debug, thiserror::Error)]
enum PathError {
    #[error("array notation is not allowed")]
    Index,
    #[error("expected [ or . but got: {0}")]
    Unexpected(String),
    #[error("unexpected end of JSON path")]
    End,
    #[error("does not refer to a valid field")]
    Unknown,
}

/// Returns the schema at a path of declared fields.
fn selectable<'p>(path: &str, props: &'p Props) -> Result<&'p Props, PathError> {
    let (mut props, mut rest) = (props, path);
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix('.') else {
            if rest.starts_with('[') {
                return Err(PathError::Index);
            }
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(PathError::Unexpected(rest[..end].to_owned()));
        };
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        if after.is_empty() {
            return Err(PathError::End);
        }
        let found = props.properties.get(&after[..end]);
        props = found.ok_or(PathError::Unknown)?;
        rest = &after[end..];
    }
    Ok(props)
}

fn conversion(causes: &mut Causes, conversion: &Value, path: &Path) {
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, "strategy");
    causes.required_one_of(&path.child("strategy"), strategy, &["None", "Webhook"]);
    let config = at(conversion, "webhook.clientConfig");
    let config_path = path.child("webhookClientConfig");
    let versions = items(conversion, "webhook.conversionReviewVersions");
    let versions_path = path.child("conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if !config.is_null() {
            causes.forbidden(&config_path, detail);
        }
        if !versions.is_empty() {
            causes.forbidden(&versions_path, detail);
        }
        return;
    }
    if config.is_null() {
        causes.required(&config_path, "required when strategy is set to Webhook");
    } else {
        admission::client_config(causes, config, &config_path);
    }
    if versions.is_empty() {
        causes.required(&versions_path, "");
    } else if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        let shown = BadValue::raw(Value::Array(versions.to_vec()).to_string());
        causes.invalid(&versions_path, shown, "must include at least one of v1, v1beta1");
    }
}

fn stored_versions(causes: &mut Causes, crd: &Value) {
    let path = Path::new("status.storedVersions");
    let stored = items(crd, "status.storedVersions");
    if stored.is_empty() {
        return causes.invalid(&path, BadValue::raw("null"), "must have at least one stored version");
    }
    let versions = items(crd, "spec.versions");
    for version in versions.iter().filter(|version| truth(version, "storage")) {
        let name = text(version, "name");
        if !stored.iter().any(|one| one == name) {
            let shown = BadValue::raw(Value::Array(stored.to_vec()).to_string());
            causes.invalid(&path, shown, &format!("must have the storage version {name}"));
        }
    }
    for (index, one) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.iter().any(|version| text(version, "name") == one) {
            let detail = format!(
                "missing from spec.versions; {one} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {one} and removes {one} from status.storedVersions"
            );
            causes.invalid(&path.index(index), one, &detail);
        }
    }
}

fn annotation(crd: &Value) -> &str {
    at(crd, "metadata.annotations").get(APPROVED).and_then(Value::as_str).unwrap_or_default()
}

/// Kubernetes' own groups are not for everybody.
fn approval(causes: &mut Causes, crd: &Value, old: &Value) {
    let group = text(crd, "spec.group");
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|own| group == *own || group.ends_with(&format!(".{own}")));
    let is_url = |text: &str| text.split_once("://").is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
    let state = |text: &str| (text.is_empty(), text.starts_with("unapproved"), is_url(text));
    let value = annotation(crd);
    if !protected || (!old.is_null() && state(annotation(old)) == state(value)) {
        return;
    }
    let path = Path::new("metadata.annotations").key(APPROVED);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state(value) {
        (true, ..) => {
            let detail = format!("protected groups must have approval annotation \"{APPROVED}\", {see}");
            causes.required(&path, &detail);
        }
        (_, true, _) | (_, _, true) => {}
        _ => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {see}"
            );
            causes.invalid(&path, value, &detail);
        }
    }
}
