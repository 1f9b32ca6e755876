//! Resources inside of resources: their version, kind and metadata.

use serde_json::{Map, Value};

use super::props::Props;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;
use setpoint_schema::{Schema, Shape, builtin, read_value};

/// Returns the faults in the meta fields of embedded resources.
pub(super) fn check(value: &Value, props: &Props, path: &Path, is_resource: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(value, props, path, is_resource, &mut |object, path| embedded(object, path, &mut causes));
    causes
}

/// The first meta field of an embedded resource that does not even decode.
pub(super) fn malformed(value: &Value, props: &Props, path: &Path, is_resource: bool) -> Option<Cause> {
    let mut found = None;
    visit(value, props, path, is_resource, &mut |object, path| {
        found = found.take().or_else(|| undecodable(object, path));
    });
    found
}

/// Calls `each` with every embedded resource and its path.
fn visit(
    value: &Value,
    props: &Props,
    path: &Path,
    is_resource: bool,
    each: &mut dyn FnMut(&Map<String, Value>, &Path),
) {
    match value {
        Value::Object(fields) => {
            if is_resource {
                each(fields, path);
            }
            for (field, value) in fields {
                if let Some(property) = props.properties.get(field) {
                    visit(value, property, &path.child(field), property.embedded_resource, each);
                } else if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref())
                {
                    visit(value, schema, &path.key(field), schema.embedded_resource, each);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &props.items else { return };
            for (at, item) in items.iter().enumerate() {
                visit(item, schema, &path.index(at), schema.embedded_resource, each);
            }
        }
        _ => {}
    }
}

fn undecodable(object: &Map<String, Value>, path: &Path) -> Option<Cause> {
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object.get(field).filter(|value| !value.is_string() && !value.is_null()) {
            return Some(Cause::invalid(&path.child(field), value, "must be a string"));
        }
    }
    let metadata = object.get("metadata").filter(|metadata| !metadata.is_null())?;
    let error = setpoint_schema::read_value(metadata.clone(), &object_meta()).err()?;
    Some(Cause::invalid(&path.child("metadata"), metadata, &error.to_string()))
}

fn embedded(object: &Map<String, Value>, path: &Path, causes: &mut Vec<Cause>) {
    for field in ["apiVersion", "kind"] {
        let at = path.child(field);
        match object.get(field) {
            None => causes.push(Cause::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(&at, "", "must not be empty"));
            }
            Some(Value::String(text)) if field == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    causes.push(Cause::invalid(
                        &at,
                        text,
                        &format!("unexpected GroupVersion string: {text}"),
                    ));
                }
            }
            Some(Value::String(text)) => {
                let errors = name::dns1035_label(&text.to_lowercase());
                if !errors.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", errors.join(","));
                    causes.push(Cause::invalid(&at, text, &detail));
                }
            }
            Some(other) => causes.push(Cause::invalid(&at, other, "must be a string")),
        }
    }
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        metadata_fields(metadata, &path.child("metadata"), causes);
    }
}

fn metadata_fields(fields: &Map<String, Value>, path: &Path, causes: &mut Vec<Cause>) {
    for (at, owner) in
        fields.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(field).and_then(Value::as_str).unwrap_or_default().is_empty() {
                let path = path.child("ownerReferences").index(at).child(field);
                causes.push(Cause::required(&path, "must not be empty"));
            }
        }
    }
    let entries = |field: &str| fields.get(field).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in entries("labels") {
        for error in name::qualified_name(key) {
            causes.push(Cause::invalid(&path.child("labels"), key, &error));
        }
        for error in value.as_str().map(name::label_value).unwrap_or_default() {
            causes.push(Cause::invalid(&path.child("labels"), value, &error));
        }
    }
    for (key, _) in entries("annotations") {
        for error in name::qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid(&path.child("annotations"), key, &error));
        }
    }
}

/// The type of `metadata`.
pub(super) fn object_meta() -> Schema {
    let of_pod = builtin().schema("", "v1", "Pod").and_then(|pod| pod.child("metadata"));
    of_pod.unwrap_or_else(Schema::any)
}

/// Makes `metadata` of embedded resources what Go would write of it, and returns the paths that it does not know.
pub(super) fn coerce(value: &mut Value, props: &Props, path: &str, dropped: &mut Vec<String>) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if props.embedded_resource && name == "metadata" {
                    let meta = object_meta();
                    drop_unknown(value, &meta, &join(name), dropped);
                    // As Go writes what it read. What does not decode is refused later.
                    if let Ok(read) = read_value(value.clone(), &meta) {
                        *value = read.value;
                    }
                } else if let Some(below) = props.child(name) {
                    coerce(value, below, &join(name), dropped);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = &props.items else { return };
            for (at, item) in items.iter_mut().enumerate() {
                coerce(item, below, &format!("{path}[{at}]"), dropped);
            }
        }
        _ => {}
    }
}

fn drop_unknown(value: &mut Value, schema: &Schema, path: &str, dropped: &mut Vec<String>) {
    match (&schema.shape, value) {
        (Shape::Struct(known), Value::Object(fields)) => {
            fields.retain(|name, value| match known.field(name) {
                Some(field) => {
                    drop_unknown(value, field.ty.get(), &format!("{path}.{name}"), dropped);
                    true
                }
                None => {
                    dropped.push(format!("{path}.{name}"));
                    false
                }
            })
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for (at, value) in items.iter_mut().enumerate() {
                drop_unknown(value, item.get(), &format!("{path}[{at}]"), dropped);
            }
        }
        _ => {}
    }
}
