//! Errors of Go's converter from untyped maps for a value that does not fit its type: strategic merge and apply make
//! their objects that way, and it has other words than the JSON decoder.

use serde_json::Value;

use super::{Scalar, Schema, Shape, read_value};

/// The first thing in `value` that does not become that type.
pub fn conversion_error(value: &Value, schema: &Schema) -> Option<String> {
    if value.is_null() {
        return None;
    }
    match &schema.shape {
        Shape::Struct(fields) => {
            let Value::Object(map) = value else {
                return Some(format!("cannot restore struct from: {}", kind(value)));
            };
            fields.fields.iter().find_map(|field| conversion_error(map.get(&*field.name)?, field.ty.get()))
        }
        Shape::Map { value: below, .. } => match value {
            Value::Object(map) => map.values().find_map(|value| conversion_error(value, below.get())),
            other => Some(format!("cannot restore map from {}", kind(other))),
        },
        Shape::List { item, .. } => match value {
            Value::Array(items) => items.iter().find_map(|value| conversion_error(value, item.get())),
            other => Some(format!("cannot restore slice from {}", kind(other))),
        },
        Shape::Scalar(scalar) => leaf(value, *scalar, schema),
        Shape::Any => read_value(value.clone(), schema).err().map(|error| error.to_string()),
    }
}

fn leaf(value: &Value, scalar: Scalar, schema: &Schema) -> Option<String> {
    let (own, wanted) = match scalar {
        Scalar::String => ("string", "string"),
        Scalar::Bool => ("bool", "bool"),
        Scalar::Int32 => ("int64", "int32"),
        Scalar::Int64 => ("int64", "int64"),
        Scalar::Double => ("float64", "float64"),
        Scalar::Bytes => {
            return match value {
                Value::String(_) => {
                    let error = read_value(value.clone(), schema).err()?;
                    Some(format!("error decoding from json: {error}"))
                }
                Value::Array(_) => read_value(value.clone(), schema).err().map(|error| error.to_string()),
                other => Some(format!("cannot restore slice from {}", kind(other))),
            };
        }
        // These read themselves.
        Scalar::Quantity | Scalar::IntOrString | Scalar::Time | Scalar::MicroTime | Scalar::Duration => {
            return read_value(value.clone(), schema).err().map(|error| error.to_string());
        }
    };
    let found = kind(value);
    let number = |kind: &str| matches!(kind, "int64" | "float64");
    let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    if found == own || number(found) && number(own) && (own == "float64" || whole) {
        return None;
    }
    let name = schema.go.as_deref().unwrap_or(wanted);
    // Go could convert a number to a text (as a code point), and says so before it refuses.
    let convertible = number(found) && number(own) || found == "int64" && own == "string";
    Some(if convertible {
        format!("cannot convert {found} to {name}")
    } else {
        format!("unrecognized type: {wanted}")
    })
}

/// Go's kind of a decoded value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    #[test]
    fn the_converter_has_words_of_its_own() {
        let deployment = builtin().schema("apps", "v1", "Deployment").unwrap();
        let says = |spec: Value| conversion_error(&json!({"spec": spec}), &deployment).unwrap_or_default();
        assert_eq!(says(json!({"minReadySeconds": 1.5})), "cannot convert float64 to int32");
        assert_eq!(says(json!({"paused": "x"})), "unrecognized type: bool");
        let containers = |containers: Value| says(json!({"template": {"spec": {"containers": containers}}}));
        assert_eq!(containers(json!([{"image": 5}])), "cannot convert int64 to string");
        assert_eq!(containers(json!([{"imagePullPolicy": 5}])), "cannot convert int64 to v1.PullPolicy");
        assert_eq!(containers(json!("nonsense")), "cannot restore slice from string");
        assert_eq!(containers(json!(["x"])), "cannot restore struct from: string");
        assert_eq!(says(json!({"replicas": 3, "selector": null})), "");
    }
}
