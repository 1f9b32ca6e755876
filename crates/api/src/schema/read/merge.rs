//! A document with duplicate fields, as Go reads it leniently: the second struct of a name is read over the first.

use serde_json::{Map, Value};

use super::Reader;
use super::at::At;
use super::input::{Input, Stop, Token};
use crate::schema::{Schema, Shape};

/// The document with its duplicates merged.
pub(super) fn read<I: Input>(input: &mut I, ty: &Schema) -> Result<Value, Stop> {
    let Shape::Struct(fields) = &ty.shape else { return plain(input) };
    if input.token()? != Token::Object {
        return plain(input);
    }
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
    let nil = pointer || !matches!(ty.shape, Shape::Struct(_) | Shape::Scalar(_));
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
        (first, second) => *first = second,
    }
}
