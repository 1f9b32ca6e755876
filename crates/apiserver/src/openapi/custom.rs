//! Models of custom resources, from their definitions.

use serde_json::{Map, Value, json};
use setpoint_schema::builtin;

use super::model::{Flavor, Models};
use super::paths::model_name;
use crate::registry::Resource;

/// Adds the models of a custom resource and of its list.
pub(super) fn add(models: &mut Models, resource: &Resource, published: Option<&Value>) {
    let Resource { group, version, kind, list_kind, .. } = resource;
    let name = model_name(group, version, kind, false);
    let mut model = match published {
        Some(schema) => convert(schema, models),
        None => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    let takes_all = published.is_some_and(|schema| schema["x-kubernetes-preserve-unknown-fields"] == true);
    if takes_all && models.flavor == Flavor::V2 {
        // kubectl reads OpenAPI 2 and would refuse every field that is not named here.
        model = json!({"type": "object"});
    } else {
        type_meta(&mut model, models);
    }
    stamp(&mut model, group, version, kind);
    selectable(&mut model, resource);
    let item = models.reference(&name);
    models.custom.push(name.clone());
    models.done.insert(name, model);

    let list_meta = builtin().schema("", "v1", "ConfigMapList").and_then(|list| list.child("metadata"));
    let metadata = list_meta.map_or_else(|| json!({"type": "object"}), |meta| models.add(&meta));
    let mut list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": property(metadata, models.flavor),
            "items": {"type": "array", "items": item},
        }
    });
    stamp(&mut list, group, version, list_kind);
    selectable(&mut list, resource);
    let name = model_name(group, version, list_kind, false);
    models.custom.push(name.clone());
    models.done.insert(name, list);
}

fn stamp(model: &mut Value, group: &str, version: &str, kind: &str) {
    model["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
}

/// The fields by which objects may be selected.
fn selectable(model: &mut Value, resource: &Resource) {
    let fields = resource.custom.as_ref().map_or(&[][..], |custom| custom.selectable(&resource.version));
    if !fields.is_empty() {
        let fields: Vec<Value> = fields.iter().map(|path| json!({"fieldPath": path})).collect();
        model["x-kubernetes-selectable-fields"] = Value::Array(fields);
    }
}

fn property(reference: Value, flavor: Flavor) -> Value {
    if flavor == Flavor::V3 { json!({"allOf": [reference]}) } else { reference }
}

/// Every object has `apiVersion`, `kind` and `metadata` of the built-in type.
fn type_meta(model: &mut Value, models: &mut Models) {
    if !model["properties"].is_object() {
        model["properties"] = json!({});
    }
    let meta = builtin().schema("", "v1", "ConfigMap").and_then(|object| object.child("metadata"));
    let reference = meta.map_or_else(|| json!({"type": "object"}), |meta| models.add(&meta));
    let properties = &mut model["properties"];
    for name in ["apiVersion", "kind"] {
        if !properties[name].is_object() {
            properties[name] = json!({});
        }
        properties[name]["type"] = json!("string");
    }
    properties["metadata"] = property(reference, models.flavor);
}

/// The definition's schema as it is published. OpenAPI 2 lacks some of its keywords, which are left out.
fn convert(schema: &Value, models: &mut Models) -> Value {
    let Value::Object(source) = schema else { return schema.clone() };
    let v2 = models.flavor == Flavor::V2;
    let is = |key: &str| source.get(key) == Some(&Value::Bool(true));
    let either = is("x-kubernetes-int-or-string");
    // A value that may also be null, a number or anything at all has no type in OpenAPI 2.
    let untyped = v2 && (is("nullable") || either || is("x-kubernetes-preserve-unknown-fields"));
    let mut out = Map::new();
    for (key, value) in source {
        let value = match key.as_str() {
            "default" | "nullable" | "oneOf" | "anyOf" | "allOf" | "not" if v2 => continue,
            "type" | "items" | "properties" | "additionalProperties" if untyped => continue,
            "properties" => each(value, models),
            "items" | "additionalProperties" | "not" => convert(value, models),
            "oneOf" | "anyOf" | "allOf" => match value {
                Value::Array(items) => items.iter().map(|item| convert(item, models)).collect(),
                other => other.clone(),
            },
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    if either && !v2 && !out.contains_key("anyOf") {
        out.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    let mut out = Value::Object(out);
    if is("x-kubernetes-embedded-resource") && !untyped {
        type_meta(&mut out, models);
        out["required"] = required(&out["required"]);
    }
    out
}

/// An object within an object says what it is.
fn required(own: &Value) -> Value {
    let mut names: Vec<Value> = own.as_array().cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !names.contains(&json!(name)) {
            names.push(json!(name));
        }
    }
    Value::Array(names)
}

fn each(properties: &Value, models: &mut Models) -> Value {
    match properties {
        Value::Object(all) => all.iter().map(|(key, value)| (key.clone(), convert(value, models))).collect(),
        other => other.clone(),
    }
}
