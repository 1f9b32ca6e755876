//! JSON as expressions see it: typed by the schema, without what it does not describe.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Map as Object, Value};
use setpoint_machinery::structural::Props;

use super::ty::{declares_metadata, escape};

/// The value at a place that this schema describes.
pub(super) fn convert(value: &Value, props: &Props, is_resource: bool) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(_), Some(float)) if props.kind == "number" => Cel::Float(float),
            (Some(whole), _) => Cel::Int(whole),
            #[allow(clippy::cast_possible_truncation, reason = "validation admits whole floats for integers")]
            (None, Some(float)) if props.kind == "integer" => Cel::Int(float as i64),
            (None, float) => Cel::Float(float.unwrap_or(0.0)),
        },
        Value::String(text) => string(text, props),
        Value::Array(items) => {
            let empty = Props::default();
            let schema = props.items.as_deref().unwrap_or(&empty);
            Cel::List(Arc::new(
                items.iter().map(|item| convert(item, schema, schema.embedded_resource)).collect(),
            ))
        }
        Value::Object(fields) => Cel::Map(Map { map: Arc::new(object(fields, props, is_resource)) }),
    }
}

fn key(name: impl Into<String>) -> Key {
    Key::String(Arc::new(name.into()))
}

#[allow(clippy::disallowed_types, reason = "the evaluator's own maps; it never shows their order")]
fn object(fields: &Object<String, Value>, props: &Props, is_resource: bool) -> HashMap<Key, Cel> {
    if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
        return fields
            .iter()
            .map(|(name, value)| (key(name.as_str()), convert(value, schema, schema.embedded_resource)))
            .collect();
    }
    let is_resource = is_resource && !declares_metadata(props);
    let mut out = HashMap::new();
    for (name, value) in fields {
        match (props.properties.get(name), name.as_str()) {
            (_, "apiVersion" | "kind") if is_resource => {
                out.insert(key(name.as_str()), plain(value));
            }
            (_, "metadata") if is_resource => {
                let names = ["name", "generateName"].into_iter();
                let names = names.filter_map(|name| Some((key(name), plain(value.get(name)?)))).collect();
                out.insert(key("metadata"), Cel::Map(Map { map: Arc::new(names) }));
            }
            // A field that is null is absent to expressions.
            (Some(_), _) if value.is_null() => {}
            (Some(schema), name) => {
                if let Some(name) = escape(name) {
                    out.insert(key(name), convert(value, schema, schema.embedded_resource));
                }
            }
            (None, _) => {}
        }
    }
    out
}

/// A value that no schema describes.
pub(super) fn untyped(value: &Value) -> Cel {
    match value {
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(untyped).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (key(name.as_str()), untyped(value)));
            Cel::Map(Map { map: Arc::new(fields.collect()) })
        }
        other => plain(other),
    }
}

fn plain(value: &Value) -> Cel {
    convert(value, &Props::default(), false)
}

fn string(text: &str, props: &Props) -> Cel {
    let as_text = || Cel::String(Arc::new(text.to_owned()));
    if props.int_or_string {
        return as_text();
    }
    match props.format.as_str() {
        "byte" => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Cel::Bytes(Arc::new(bytes)),
            Err(_) => as_text(),
        },
        "date-time" => evaluate_literal("timestamp", text).unwrap_or_else(as_text),
        "date" => evaluate_literal("timestamp", &format!("{text}T00:00:00Z")).unwrap_or_else(as_text),
        "duration" => evaluate_literal("duration", text).unwrap_or_else(as_text),
        _ => as_text(),
    }
}

/// Times and durations are made by the evaluator's own functions.
fn evaluate_literal(function: &str, text: &str) -> Option<Cel> {
    let expression = format!("{function}({})", setpoint_api::go_format::quote(text));
    super::evaluate::standalone(&expression)
}
