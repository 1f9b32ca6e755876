//! Demands on a schema beyond structure: supported keywords, list and map types, rules that are
//! whole.

use serde_json::Value;

use crate::structural::field_path;
use crate::structural::props::{Props, Rule, Unsupported};
use setpoint_api::cause::{Cause, Path};

/// Properties of a whole part of the schema.
#[derive(Clone, Default)]
struct Scope {
    no_defaults: Option<String>,
    inside_metadata: bool,
}

/// Returns a cause for each keyword that is unsupported or contradicts another.
pub(super) fn check(props: &Props, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(props, path, &Scope::default(), true, &mut causes);
    causes
}

fn node(props: &Props, path: &Path, scope: &Scope, root: bool, causes: &mut Vec<Cause>) {
    keywords(props, path, scope, causes);
    if props.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(&path.child("uniqueItems"), detail));
    }
    below(props, path, scope, root, causes);
    if props.preserve_unknown == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(&path, false, "must be true or undefined"));
    }
    map_type(props, path, causes);
    list_type(props, path, causes);
    list_map(props, path, causes);
    list_items(props, path, causes);
    for (at, rule) in props.validations.iter().enumerate() {
        validation_rule(props, rule, &path.child("x-kubernetes-validations").index(at), causes);
    }
}

fn keywords(props: &Props, path: &Path, scope: &Scope, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    if !props.kind.is_empty() && !TYPES.contains(&props.kind.as_str()) {
        causes.push(Cause::not_supported(&path.child("type"), props.kind.as_str(), &TYPES));
    }
    if let (Some(_), Some(reason)) = (&props.default, &scope.no_defaults) {
        causes.push(Cause::forbidden(&path.child("default"), &format!("must not be set {reason}")));
    }
    for unsupported in &props.unsupported {
        let name = match unsupported {
            Unsupported::Id => "id",
            Unsupported::AdditionalItems => "additionalItems",
            Unsupported::PatternProperties => "patternProperties",
            Unsupported::Definitions => "definitions",
            Unsupported::Dependencies => "dependencies",
            Unsupported::Ref => "$ref",
            Unsupported::Schema => continue,
        };
        causes.push(Cause::forbidden(&path.child(name), &format!("{name} is not supported")));
    }
    if props.kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(&path.child("type"), detail));
    }
    if props.items_list {
        causes.push(Cause::forbidden(&path.child("items"), "items must be a schema object and not an array"));
    }
    if scope.inside_metadata && props.embedded_resource {
        let path = path.child("x-kubernetes-embedded-resource");
        causes.push(Cause::forbidden(&path, "must not be used inside of resource meta"));
    }
}

fn below(props: &Props, path: &Path, scope: &Scope, root: bool, causes: &mut Vec<Cause>) {
    if let Some(additional) = &props.additional {
        let path = path.child("additionalProperties");
        if !props.properties.is_empty() && (!additional.allows || additional.schema.is_some()) {
            causes.push(Cause::forbidden(&path, "additionalProperties and properties are mutual exclusive"));
        }
        let mut scope = scope.clone();
        if scope.inside_metadata {
            scope.no_defaults = Some("inside additionalProperties applying to object metadata".into());
        }
        if let Some(schema) = &additional.schema {
            node(schema, &path, &scope, false, causes);
        }
    }
    for (name, property) in &props.properties {
        let mut scope = scope.clone();
        if (root || props.embedded_resource) && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
            scope.inside_metadata = true;
            if root {
                scope.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        node(property, &path.child("properties").key(name), &scope, false, causes);
    }
    if let Some(not) = &props.not {
        node(not, &path.child("not"), scope, false, causes);
    }
    for (name, list) in [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)] {
        for (at, props) in list.iter().enumerate() {
            node(props, &path.child(name).index(at), scope, false, causes);
        }
    }
    if let Some(items) = &props.items {
        node(items, &path.child("items"), scope, false, causes);
    }
}

fn needs_type(props: &Props, path: &Path, kind: &str, extension: &str, causes: &mut Vec<Cause>) {
    let detail = format!("must be {kind} if {extension} is specified");
    let path = path.child("type");
    causes.push(if props.kind.is_empty() {
        Cause::required(&path, &detail)
    } else {
        Cause::invalid(&path, props.kind.as_str(), &detail)
    });
}

fn map_type(props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    let Some(map_type) = &props.map_type else { return };
    if props.kind != "object" {
        needs_type(props, path, "object", "x-kubernetes-map-type", causes);
    }
    if map_type != "atomic" && map_type != "granular" {
        let path = path.child("x-kubernetes-map-type");
        causes.push(Cause::not_supported(&path, map_type.as_str(), &["atomic", "granular"]));
    }
}

fn list_type(props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    let list_type = props.list_type.as_deref();
    let own_path = path.child("x-kubernetes-list-type");
    if list_type.is_some() && props.kind != "array" {
        needs_type(props, path, "array", "x-kubernetes-list-type", causes);
    } else if let (Some("set"), Some(items)) = (list_type, &props.items) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let items_path = path.child("items");
        let shown = items.list_type.clone().map_or(Value::Null, Value::String);
        if items.kind == "array" && items.list_type.as_deref().is_some_and(|own| own != "atomic") {
            causes.push(Cause::invalid(&items_path.child("x-kubernetes-list-type"), &shown, detail));
        } else if items.kind == "object" && items.map_type.as_deref() != Some("atomic") {
            causes.push(Cause::invalid(&items_path.child("x-kubernetes-map-type"), &shown, detail));
        }
    }
    if let Some(other) = list_type.filter(|own| !["atomic", "set", "map"].contains(own)) {
        causes.push(Cause::not_supported(&own_path, other, &["atomic", "set", "map"]));
    }
    if !props.list_map_keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => causes.push(Cause::required(&own_path, detail)),
            Some("map") => {}
            Some(other) => causes.push(Cause::invalid(&own_path, other, detail)),
        }
    }
}

fn list_map(props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    if props.list_type.as_deref() != Some("map") {
        return;
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if props.list_map_keys.is_empty() {
        causes.push(Cause::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = &props.items else {
        if !props.items_list {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            causes.push(Cause::required(&path.child("items"), detail));
        }
        return;
    };
    if items.kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let path = path.child("items").child("type");
        return causes.push(Cause::invalid(&path, items.kind.as_str(), detail));
    }
    let shown = Value::from(props.list_map_keys.clone());
    for (at, key) in props.list_map_keys.iter().enumerate() {
        match items.properties.get(key) {
            Some(property) if property.kind == "array" || property.kind == "object" => {
                let path = path.child("items").child("properties").key(key).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(Cause::invalid(&path, items.kind.as_str(), detail));
            }
            Some(_) => {}
            None => {
                causes.push(Cause::invalid(
                    &keys_path,
                    &shown,
                    "entries must all be names of item properties",
                ));
            }
        }
        if props.list_map_keys[..at].contains(key) {
            causes.push(Cause::invalid(&keys_path, &shown, "must not contain duplicate entries"));
        }
    }
}

/// Items that are told apart by value or key are never null, and their keys are never absent.
fn list_items(props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    let (Some(items), Some(list_type @ ("set" | "map"))) = (&props.items, props.list_type.as_deref()) else {
        return;
    };
    let items_path = path.child("items");
    if items.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(&items_path.child("nullable"), &detail));
    }
    if list_type == "set" {
        return;
    }
    for key in &props.list_map_keys {
        let Some(property) = items.properties.get(key) else { continue };
        let path = items_path.child("properties").key(key);
        if !items.required.contains(key) && property.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(&path.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(&path.child("nullable"), detail));
        }
    }
}

fn validation_rule(props: &Props, rule: &Rule, path: &Path, causes: &mut Vec<Cause>) {
    let message = rule.message.trim();
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    if rule.rule.trim().is_empty() {
        causes.push(Cause::required(&path.child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        let detail = "must be non-empty if specified";
        causes.push(Cause::invalid(&path.child("message"), rule.message.as_str(), detail));
    } else if has_breaks(message) {
        let detail = "must not contain line breaks";
        causes.push(Cause::invalid(&path.child("message"), rule.message.as_str(), detail));
    } else if has_breaks(rule.rule.trim()) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        causes.push(Cause::required(&path.child("message"), detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        causes.push(Cause::required(&path.child("messageExpression"), detail));
    }
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        causes.push(Cause::not_supported(&path.child("reason"), reason, &REASONS));
    }
    let field = rule.field_path.as_str();
    let field_at = path.child("fieldPath");
    if !field.is_empty() && field.trim().is_empty() {
        causes.push(Cause::invalid(&field_at, field, "must be non-empty if specified"));
    }
    if has_breaks(field) {
        causes.push(Cause::invalid(&field_at, field, "must not contain line breaks"));
    }
    if !field.is_empty() && field_path::resolve(field, props).is_none() {
        causes.push(Cause::invalid(&field_at, field, "must be a valid path"));
    }
}
