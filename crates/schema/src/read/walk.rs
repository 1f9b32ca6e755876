//! The walk: the document and the type, step by step together.

use serde_json::{Map, Value};

use super::at::At;
use super::input::{Input, Stop, Token};
use super::{Fault, Reader};
use crate::zero::{fill, float, written, zero};
use crate::{Codec, Schema, Shape, Struct, builtin};

impl Reader {
    /// Takes the value that stands next. None is Go's nil or zero: `null`, or what did not fit.
    pub(super) fn value<I: Input>(
        &mut self,
        input: &mut I,
        ty: &Schema,
        at: &At<'_>,
    ) -> Result<Option<Value>, Stop> {
        let token = input.token()?;
        let custom = ty.go.is_none();
        if token == Token::Null {
            input.literal()?;
            return Ok(custom.then_some(Value::Null));
        }
        match (&ty.shape, token) {
            (Shape::Struct(fields), Token::Object) if custom => self.custom(input, fields, at).map(Some),
            (Shape::Struct(fields), Token::Object) => self.structure(input, ty, fields, at).map(Some),
            (Shape::Map { value, .. }, Token::Object) => self.map(input, value.get(), at).map(Some),
            (Shape::List { item, .. }, Token::Array) => self.list(input, item.get(), at).map(Some),
            (Shape::Any, _) => self.own(input, ty, at),
            _ if custom => self.any(input, true, at).map(Some),
            (Shape::Scalar(scalar), _) => self.leaf(input, *scalar, token, ty, at),
            _ => {
                let found = describe(token);
                self.mismatch(input, found, ty, at)
            }
        }
    }

    fn structure<I: Input>(
        &mut self,
        input: &mut I,
        ty: &Schema,
        fields: &Struct,
        at: &At<'_>,
    ) -> Result<Value, Stop> {
        let go = ty.go.as_deref().unwrap_or_default();
        let (mut out, mut seen, mut from) = (Map::new(), Seen::default(), 0);
        input.object(&mut |input, key| {
            let Some(index) = fields.index_from(key.as_bytes(), from) else {
                self.strict(Fault::Unknown, at, key);
                return input.skip();
            };
            from = index + 1;
            if seen.again(index) {
                self.strict(Fault::Duplicate, at, key);
            }
            let field = &fields.fields[index];
            let here = At::Field { up: at, owner: Some((go, fields, index)), name: &field.name };
            let ty = field.ty.get();
            match self.value(input, ty, &here)? {
                Some(value) if written(field, ty, &value) => {
                    out.insert(field.name.to_string(), value);
                }
                _ => {}
            }
            Ok(())
        })?;
        fill(fields, &mut out);
        Ok(Value::Object(out))
    }

    fn custom<I: Input>(&mut self, input: &mut I, fields: &Struct, at: &At<'_>) -> Result<Value, Stop> {
        let mut out = Map::new();
        input.object(&mut |input, key| {
            if out.contains_key(key) {
                self.strict(Fault::Duplicate, at, key);
            }
            let here = At::Field { up: at, owner: None, name: key };
            let value = match fields.field(key) {
                Some(field) => self.value(input, field.ty.get(), &here)?,
                None if fields.preserve_unknown || fields.embedded_resource && is_type_meta(key) => {
                    Some(self.any(input, true, &here)?)
                }
                None => {
                    self.strict(Fault::Unknown, at, key);
                    return input.skip();
                }
            };
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
            Ok(())
        })?;
        Ok(Value::Object(out))
    }

    fn map<I: Input>(&mut self, input: &mut I, ty: &Schema, at: &At<'_>) -> Result<Value, Stop> {
        let mut out = Map::new();
        input.object(&mut |input, key| {
            if out.contains_key(key) {
                self.strict(Fault::Duplicate, at, key);
            }
            let here = At::Key { up: at, name: key };
            let value = self.value(input, ty, &here)?.unwrap_or_else(|| zero(ty));
            out.insert(key.to_owned(), value);
            Ok(())
        })?;
        Ok(Value::Object(out))
    }

    fn list<I: Input>(&mut self, input: &mut I, ty: &Schema, at: &At<'_>) -> Result<Value, Stop> {
        let mut out = Vec::new();
        input.array(&mut |input| {
            let here = At::Index { up: at, at: out.len() };
            let value = self.value(input, ty, &here)?.unwrap_or_else(|| zero(ty));
            out.push(value);
            Ok(())
        })?;
        Ok(Value::Array(out))
    }

    /// Untyped JSON. Whole floats become integers, as Go prints them.
    pub(super) fn any<I: Input>(&mut self, input: &mut I, strict: bool, at: &At<'_>) -> Result<Value, Stop> {
        match input.token()? {
            Token::Null => input.literal().map(|()| Value::Null),
            Token::Bool(value) => input.literal().map(|()| Value::Bool(value)),
            Token::Text => input.text().map(Value::String),
            Token::Number => Ok(number(&input.number()?)),
            Token::Array => {
                let mut out = Vec::new();
                input.array(&mut |input| {
                    let here = At::Index { up: at, at: out.len() };
                    out.push(self.any(input, strict, &here)?);
                    Ok(())
                })?;
                Ok(Value::Array(out))
            }
            Token::Object => {
                let mut out = Map::new();
                input.object(&mut |input, key| {
                    if strict && out.contains_key(key) {
                        self.strict(Fault::Duplicate, at, key);
                    }
                    let value = self.any(input, strict, &At::Key { up: at, name: key })?;
                    out.insert(key.to_owned(), value);
                    Ok(())
                })?;
                Ok(Value::Object(out))
            }
        }
    }

    /// Types that read themselves.
    fn own<I: Input>(&mut self, input: &mut I, ty: &Schema, at: &At<'_>) -> Result<Option<Value>, Stop> {
        let token = input.token()?;
        let (props, list) = match ty.codec {
            Codec::PropsOrBool(props) => (props, false),
            Codec::PropsOrArray(props) | Codec::PropsOrStringArray(props) => (props, true),
            Codec::JsonOnly => return self.any(input, true, at).map(Some),
            _ => return self.any(input, ty.go.is_none(), at).map(Some),
        };
        let here = At::Own { up: at };
        let (before, lenient) = (self.error.take(), std::mem::replace(&mut self.lenient, true));
        let props = builtin().type_at(props);
        let value = match token {
            Token::Object => self.value(input, props, &here)?,
            Token::Array if matches!(ty.codec, Codec::PropsOrArray(_)) => {
                // An empty list and no list are one in Go: both print null.
                Some(self.list(input, props, &here)?).filter(|items| *items != Value::Array(Vec::new()))
            }
            Token::Array if list => Some(self.strings(input, &here)?),
            Token::Bool(value) if !list => input.literal().map(|()| Some(Value::Bool(value)))?,
            _ if list => input.skip().map(|()| None)?,
            _ => return Err(Stop::Refused("boolean or JSON schema expected".to_owned())),
        };
        self.lenient = lenient;
        if let Some(text) = std::mem::replace(&mut self.error, before) {
            return Err(Stop::Refused(text));
        }
        Ok(Some(value.unwrap_or(Value::Null)))
    }

    fn strings<I: Input>(&mut self, input: &mut I, at: &At<'_>) -> Result<Value, Stop> {
        let mut out = Vec::new();
        input.array(&mut |input| {
            match input.token()? {
                Token::Text => out.push(Value::String(input.text()?)),
                Token::Null => {
                    input.literal()?;
                    out.push(Value::String(String::new()));
                }
                token => {
                    if self.error.is_none() {
                        self.error = Some(super::mismatch_text(describe(token), "string", at));
                    }
                    input.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(if out.is_empty() { Value::Null } else { Value::Array(out) })
    }
}

fn is_type_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// Go's word for a value of the wrong type.
pub(super) fn describe(token: Token) -> &'static str {
    match token {
        Token::Object => "object",
        Token::Array => "array",
        Token::Text => "string",
        Token::Number => "number",
        Token::Bool(_) => "bool",
        Token::Null => "null",
    }
}

fn number(text: &str) -> Value {
    if !text.contains('.')
        && let Ok(whole) = text.parse::<i64>()
    {
        return Value::from(whole);
    }
    // JSON has larger numbers than a float: they become the largest one.
    float(text.parse().unwrap_or(f64::MAX).clamp(f64::MIN, f64::MAX))
}

/// Which fields of a struct were there already.
#[derive(Default)]
struct Seen {
    first: u64,
    rest: Vec<usize>,
}

impl Seen {
    fn again(&mut self, index: usize) -> bool {
        if index < 64 {
            let before = self.first;
            self.first |= 1 << index;
            return before == self.first;
        }
        let again = self.rest.contains(&index);
        self.rest.push(index);
        again
    }
}
