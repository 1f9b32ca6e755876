//! The object before it exists: what Go's zero value of a built-in type looks like in JSON. A create is compared
//! with it, so that only what it adds is owned.

use serde_json::{Map, Value};

use setpoint_schema::{Omit, Scalar, Schema, Shape};

/// The zero value of a kind. Custom kinds have no fields until somebody sets them.
pub(super) fn empty_object(schema: &Schema) -> Value {
    if schema.name.is_none() {
        return Value::Object(Map::new());
    }
    zero(schema, false).unwrap_or_else(|| Value::Object(Map::new()))
}

/// The JSON of Go's zero value.
fn zero(schema: &Schema, pointer: bool) -> Option<Value> {
    if pointer {
        return Some(Value::Null);
    }
    Some(match &schema.shape {
        Shape::Any | Shape::Map { .. } | Shape::List { .. } => Value::Null,
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => "".into(),
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime => Value::Null,
            Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString | Scalar::Double => 0.into(),
            Scalar::Bool => false.into(),
            Scalar::Quantity => "0".into(),
            Scalar::Duration => "0s".into(),
        },
        Shape::Struct(fields) => {
            let mut object = Map::new();
            for field in &fields.fields {
                let ty = field.ty.get();
                // Go holds these scalars in structs, which `omitempty` never leaves out.
                let is_struct = !field.pointer
                    && matches!(
                        ty.shape,
                        Shape::Struct(_)
                            | Shape::Scalar(
                                Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString
                            )
                    );
                let written = match field.omit {
                    Omit::Never => true,
                    Omit::Empty => is_struct,
                    Omit::Zero => false,
                };
                if let Some(value) = written.then(|| zero(ty, field.pointer)).flatten() {
                    object.insert(field.name.to_string(), value);
                }
            }
            Value::Object(object)
        }
    })
}
