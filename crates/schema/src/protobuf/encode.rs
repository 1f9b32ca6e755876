//! A JSON value to the message that Go writes: values that are not behind pointers are written even when zero,
//! fields in the order of their numbers, map entries in the order of their keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::EncodeError;
use super::back::Back;
use crate::instant::Instant;
use crate::{Codec, Field, ProtoSlot, Scalar, Schema, Shape, Struct, builtin};
use setpoint_api::go_format::escape_json;

/// The message of an object, without an envelope.
///
/// # Errors
/// When the type has no protobuf form or a value does not fit its type.
pub fn encode_message(value: &Value, schema: &Schema) -> Result<Vec<u8>, EncodeError> {
    let mut out = Back::default();
    body(&mut out, Some(value), schema, "")?;
    Ok(out.finish())
}

type Done = Result<(), EncodeError>;

fn misfit<T>(field: &str, ty: &Schema) -> Result<T, EncodeError> {
    let ty = ty.go.as_deref().unwrap_or("interface {}").to_owned();
    Err(EncodeError::Value { field: field.to_owned(), ty })
}

/// The content of a type that is a message: a struct, or a leaf that protobuf wraps.
fn body(out: &mut Back, value: Option<&Value>, ty: &Schema, field: &str) -> Done {
    let value = value.filter(|value| !value.is_null());
    match (&ty.shape, ty.codec) {
        (_, Codec::JsonOnly) => Err(EncodeError::NoForm(ty.go.as_deref().unwrap_or_default().to_owned())),
        (Shape::Struct(fields), _) => match value {
            None => structure(out, &Map::new(), fields),
            Some(Value::Object(map)) => structure(out, map, fields),
            Some(_) => misfit(field, ty),
        },
        (Shape::List { item, .. }, _) => list(out, 1, value, item.get(), field, ty),
        (Shape::Scalar(scalar), _) => leaf_message(out, value, *scalar, ty, field),
        (_, Codec::PropsOrBool(props)) => {
            if let Some(schema @ Value::Object(_)) = value {
                message(out, 2, Some(schema), builtin().type_at(props), field)?;
            }
            out.varint_field(1, u64::from(value.is_some_and(|value| *value != Value::Bool(false))));
            Ok(())
        }
        (_, Codec::PropsOrArray(props)) => match value {
            Some(items @ Value::Array(_)) => list(out, 2, Some(items), builtin().type_at(props), field, ty),
            Some(schema) => message(out, 1, Some(schema), builtin().type_at(props), field),
            None => Ok(()),
        },
        (_, Codec::PropsOrStringArray(props)) => match value {
            Some(Value::Array(names)) => {
                for name in names.iter().rev() {
                    out.bytes_field(2, name.as_str().unwrap_or_default().as_bytes());
                }
                Ok(())
            }
            Some(schema) => message(out, 1, Some(schema), builtin().type_at(props), field),
            None => Ok(()),
        },
        _ => {
            if let Some(value) = value {
                let text = value.to_string();
                out.bytes_field(1, escape_json(&text).as_bytes());
            }
            Ok(())
        }
    }
}

fn message(out: &mut Back, number: u16, value: Option<&Value>, ty: &Schema, field: &str) -> Done {
    let end = out.mark();
    body(out, value, ty, field)?;
    out.close(number, end);
    Ok(())
}

/// A struct of more fields than this looks each value up by name. The largest built-in type has 44.
const FIELDS: usize = 64;

/// Fields from the last to the first; those of an embedded message stand together.
fn structure(out: &mut Back, map: &Map<String, Value>, fields: &Struct) -> Done {
    let mut values = [None; FIELDS];
    for (name, value) in map {
        if let Some(slot) = fields.index(name).and_then(|at| values.get_mut(at)) {
            *slot = Some(value);
        }
    }
    let find = |at: u16| match values.get(usize::from(at)) {
        Some(value) => *value,
        None => map.get(&*fields.fields[usize::from(at)].name),
    };
    slots(out, &find, fields, &fields.proto, 0)
}

fn slots<'a>(
    out: &mut Back,
    find: &impl Fn(u16) -> Option<&'a Value>,
    fields: &Struct,
    mut slots: &[ProtoSlot],
    depth: usize,
) -> Done {
    while let Some(last) = slots.last() {
        let number = last.path[depth];
        if depth < 2 && last.path[depth + 1] != 0 {
            let first = slots.partition_point(|slot| slot.path[depth] < number);
            let end = out.mark();
            self::slots(out, find, fields, &slots[first..], depth + 1)?;
            out.close(number, end);
            slots = &slots[..first];
        } else {
            self::field(out, number, find(last.field), &fields.fields[usize::from(last.field)])?;
            slots = &slots[..slots.len() - 1];
        }
    }
    Ok(())
}

fn field(out: &mut Back, number: u16, value: Option<&Value>, field: &Field) -> Done {
    let ty = field.ty.get();
    let value = value.filter(|value| !value.is_null());
    if value.is_none() && field.pointer {
        return Ok(());
    }
    match (&ty.shape, ty.codec) {
        (Shape::List { .. }, Codec::WrappedList) if value.is_none() => Ok(()),
        (Shape::List { item, .. }, codec) if codec != Codec::WrappedList => {
            list(out, number, value, item.get(), &field.name, ty)
        }
        (Shape::Map { value: item, .. }, _) => map(out, number, value, item.get(), &field.name, ty),
        (Shape::Scalar(Scalar::Bytes), _) if value.is_none() => Ok(()),
        _ => single(out, number, value, ty, &field.name),
    }
}

/// One value with its tag; none is the zero value.
fn single(out: &mut Back, number: u16, value: Option<&Value>, ty: &Schema, field: &str) -> Done {
    let Shape::Scalar(scalar) = &ty.shape else { return message(out, number, value, ty, field) };
    match (scalar, value) {
        (Scalar::String | Scalar::Bytes, None) => out.bytes_field(number, b""),
        (Scalar::String, Some(Value::String(text))) => out.bytes_field(number, text.as_bytes()),
        (Scalar::Bytes, Some(Value::String(text))) => match STANDARD.decode(text) {
            Ok(bytes) => out.bytes_field(number, &bytes),
            Err(_) => return misfit(field, ty),
        },
        (Scalar::Bool, None) => out.varint_field(number, 0),
        (Scalar::Bool, Some(Value::Bool(value))) => out.varint_field(number, u64::from(*value)),
        (Scalar::Int32 | Scalar::Int64, None) => out.varint_field(number, 0),
        (Scalar::Int32 | Scalar::Int64, Some(Value::Number(value))) => match value.as_i64() {
            // Negative numbers of either width are written with ten bytes.
            Some(value) => out.varint_field(number, value.cast_unsigned()),
            None => return misfit(field, ty),
        },
        (Scalar::Double, None) => out.double_field(number, 0.0),
        (Scalar::Double, Some(Value::Number(value))) => {
            out.double_field(number, value.as_f64().unwrap_or_default());
        }
        (
            Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString | Scalar::Duration,
            value,
        ) => return message(out, number, value, ty, field),
        _ => return misfit(field, ty),
    }
    Ok(())
}

fn leaf_message(out: &mut Back, value: Option<&Value>, scalar: Scalar, ty: &Schema, field: &str) -> Done {
    match (scalar, value) {
        (Scalar::Quantity, None) => out.bytes_field(1, b"0"),
        (Scalar::Quantity, Some(Value::String(text))) => out.bytes_field(1, text.as_bytes()),
        (Scalar::Quantity, Some(Value::Number(number))) => out.bytes_field(1, number.to_string().as_bytes()),
        (Scalar::Time | Scalar::MicroTime, None) => {}
        (Scalar::Time | Scalar::MicroTime, Some(Value::String(text))) => {
            // A decoded value may have either precision.
            let micro = scalar == Scalar::MicroTime;
            let Ok(instant) = Instant::parse(text, false) else { return misfit(field, ty) };
            let nanos = if micro { instant.nanos / 1000 * 1000 } else { 0 };
            if !instant.is_zero() {
                out.varint_field(2, u64::from(nanos));
                out.varint_field(1, instant.seconds.cast_unsigned());
            }
        }
        (Scalar::IntOrString, value) => {
            let (kind, number, text) = match value {
                None => (0, 0, ""),
                Some(Value::String(text)) => (1, 0, text.as_str()),
                Some(Value::Number(number)) => (0, number.as_i64().unwrap_or_default(), ""),
                Some(_) => return misfit(field, ty),
            };
            out.bytes_field(3, text.as_bytes());
            out.varint_field(2, number.cast_unsigned());
            out.varint_field(1, kind);
        }
        _ => return misfit(field, ty),
    }
    Ok(())
}

fn list(out: &mut Back, number: u16, value: Option<&Value>, item: &Schema, field: &str, ty: &Schema) -> Done {
    match value {
        None => Ok(()),
        Some(Value::Array(items)) => {
            items.iter().rev().try_for_each(|value| single(out, number, some(value), item, field))
        }
        Some(_) => misfit(field, ty),
    }
}

fn map(out: &mut Back, number: u16, value: Option<&Value>, item: &Schema, field: &str, ty: &Schema) -> Done {
    match value {
        None => Ok(()),
        Some(Value::Object(entries)) => {
            for (key, value) in entries.iter().rev() {
                let end = out.mark();
                let bytes = matches!(item.shape, Shape::Scalar(Scalar::Bytes));
                if !(bytes && value.is_null()) {
                    single(out, 2, some(value), item, field)?;
                }
                out.bytes_field(1, key.as_bytes());
                out.close(number, end);
            }
            Ok(())
        }
        Some(_) => misfit(field, ty),
    }
}

fn some(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}
