//! A document with duplicate fields, as Go reads it leniently: the second struct of a name is read over the first.

use serde_json::{Map, Value};

use super::Reader;
use super::at::At;
use super::input::{Input, Stop, Token};
use crate::{Scalar, Schema, Shape, Struct};

/// The document with its duplicates merged.
pub(super) fn read<I: Input>(input: &mut I, ty: &Schema) -> Result<Value, Stop> {
    match (&ty.shape, input.token()?) {
        (Shape::Struct(fields), Token::Object) => structure(input, fields),
        (Shape::Map { value, .. }, Token::Object) => {
            let mut out = Map::new();
            input.object(&mut |input, key| {
                out.insert(key.to_owned(), read(input, value.get())?);
                Ok(())
            })?;
            Ok(Value::Object(out))
        }
        (Shape::List { item, .. }, Token::Array) => {
            let mut out = Vec::new();
            input.array(&mut |input| {
                out.push(read(input, item.get())?);
                Ok(())
            })?;
            Ok(Value::Array(out))
        }
        // A value has no spelling of its own for numbers; a quantity does.
        (Shape::Scalar(Scalar::Quantity), Token::Number) => {
            input.number().map(|text| Value::String(text.into_owned()))
        }
        _ => plain(input),
    }
}

fn structure<I: Input>(input: &mut I, fields: &Struct) -> Result<Value, Stop> {
    let mut out = Map::new();
    input.object(&mut |input, key| {
        let Some(field) = fields.field(key) else { return input.skip() };
        let ty = field.ty.get();
        let value = read(input, ty)?;
        match out.get_mut(key) {
            Some(first) => over(first, value, ty, field.pointer),
            None => {
                out.insert(key.to_owned(), value);
            }
        }
        Ok(())
    })?;
    Ok(Value::Object(out))
}

fn plain<I: Input>(input: &mut I) -> Result<Value, Stop> {
    Reader { lenient: true, ..Reader::default() }.any(input, false, &At::Root)
}

fn over(first: &mut Value, second: Value, ty: &Schema, pointer: bool) {
    // Times and quantities read `null` themselves, as their zero.
    let own = matches!(ty.shape, Shape::Scalar(Scalar::Time | Scalar::MicroTime | Scalar::Quantity));
    let nil = pointer || own || !matches!(ty.shape, Shape::Struct(_) | Shape::Scalar(_) | Shape::Any);
    match (first, second) {
        (first, Value::Null) if nil => *first = Value::Null,
        (_, Value::Null) => {}
        (Value::Object(first), Value::Object(second)) => {
            for (key, value) in second {
                match (first.get_mut(&key), &ty.shape) {
                    (Some(old), Shape::Struct(fields)) if fields.field(&key).is_some() => {
                        let field = fields.field(&key).expect("just found");
                        over(old, value, field.ty.get(), field.pointer);
                    }
                    _ => {
                        first.insert(key, value);
                    }
                }
            }
        }
        // Go reads the items of the second list over those of the first.
        (Value::Array(first), Value::Array(second)) => {
            let item = match &ty.shape {
                Shape::List { item, .. } => item.get(),
                _ => return *first = second,
            };
            first.truncate(second.len());
            for (at, value) in second.into_iter().enumerate() {
                match first.get_mut(at) {
                    Some(old) => over(old, value, item, false),
                    None => first.push(value),
                }
            }
        }
        (first, second) => *first = second,
    }
}
