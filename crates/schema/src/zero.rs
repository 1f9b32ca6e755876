//! The values that Go writes for unset fields.

use serde_json::{Map, Value};

use super::{Codec, Field, Node, Omit, Scalar, Schema, Shape, Struct};

/// The JSON of the type's zero value.
pub(crate) fn zero(ty: &Node) -> Value {
    match &ty.shape {
        Shape::Any if matches!(ty.codec, Codec::PropsOrBool(_)) => Value::Bool(false),
        Shape::Any | Shape::Map { .. } | Shape::List { .. } => Value::Null,
        Shape::Scalar(scalar) => match scalar {
            Scalar::String => Value::String(String::new()),
            Scalar::Int32 | Scalar::Int64 | Scalar::Double | Scalar::IntOrString => Value::from(0),
            Scalar::Bool => Value::Bool(false),
            Scalar::Bytes | Scalar::Time | Scalar::MicroTime => Value::Null,
            Scalar::Quantity => Value::from("0"),
            Scalar::Duration => Value::from("0s"),
        },
        Shape::Struct(fields) => {
            let mut out = Map::new();
            fill(fields, &mut out);
            Value::Object(out)
        }
    }
}

/// Adds the fields that Go writes even when nobody set them.
pub(crate) fn fill(fields: &Struct, out: &mut Map<String, Value>) {
    for at in &fields.always {
        let field = &fields.fields[usize::from(*at)];
        if !out.contains_key(&*field.name) {
            out.insert(field.name.to_string(), absent(field));
        }
    }
}

/// Returns the value that Go writes for an unset field without `omitempty`.
pub(crate) fn absent(field: &Field) -> Value {
    if field.pointer { Value::Null } else { zero(field.ty.get()) }
}

/// Whether Go writes a field that was set to this value.
pub(crate) fn written(field: &Field, ty: &Schema, value: &Value) -> bool {
    if field.pointer {
        return true;
    }
    match field.omit {
        Omit::Never => true,
        Omit::Empty => match &ty.shape {
            Shape::Struct(_) => true,
            Shape::Scalar(Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::IntOrString) => true,
            Shape::Any => ty.codec != Codec::JsonOnly || !value.is_null(),
            _ => !is_empty(value),
        },
        Omit::Zero => !is_empty(value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// A float as Go prints it: without a point when it is whole.
pub(crate) fn float(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT { Value::from(value as i64) } else { Value::from(value) }
}
