//! JSON in, the object as Go would print it again out, in one pass: unknown fields fall away, duplicates are
//! noticed, wrong types are refused, and what Go always writes is added.
//!
//! For custom types (compiled from a CRD) only unknown fields fall away: their values are checked by
//! validation, not by decoding.

mod leaf;
mod merge;
mod type_meta;
mod walk;
mod at;
mod input;
pub(crate) mod syntax;

use std::fmt;

use serde_json::Value;

use super::Schema;
use at::At;
use input::{Input, Owned, Stop};
use setpoint_api::go_format;
use syntax::Scanner;
pub use type_meta::{TypeMeta, excerpt, type_meta};

/// An object as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// As Go would print it.
    pub value: Value,
    /// The faults that a strict reader refuses, in document order, each once. At most [`STRICT_LIMIT`].
    pub strict: Vec<Strict>,
}

/// How many strict errors are kept; the rest is dropped, as in Go.
pub const STRICT_LIMIT: usize = 100;

/// A field that a strict reader refuses and a lenient one drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strict {
    /// The fault of the field.
    pub fault: Fault,
    /// The field (`spec.containers[0].nmae`).
    pub path: String,
}

/// The fault of a field that a lenient reader tolerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The type does not have it.
    Unknown,
    /// It stands there twice.
    Duplicate,
}

impl fmt::Display for Strict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::Unknown => "unknown",
            Fault::Duplicate => "duplicate",
        };
        write!(f, "{fault} field {}", go_format::quote(&self.path))
    }
}

/// Why there is no object; the texts are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not JSON.
    #[error("{0}")]
    Syntax(String),
    /// A value has the wrong type.
    #[error("{0}")]
    Type(String),
}

/// Reads JSON text as that type.
///
/// ```
/// use setpoint_schema::{builtin, read_json};
/// let schema = builtin().schema("", "v1", "ConfigMap").unwrap();
/// let read = read_json(br#"{"metadata":{"name":"a","nmae":"b"},"data":{}}"#, &schema).unwrap();
/// assert_eq!(read.value, serde_json::json!({"metadata": {"name": "a"}}));
/// assert_eq!(read.strict[0].to_string(), r#"unknown field "metadata.nmae""#);
/// ```
///
/// # Errors
/// When it is not JSON, or a value does not fit its type.
pub fn read_json(data: &[u8], schema: &Schema) -> Result<Read, ReadError> {
    let mut scanner = Scanner::new(data);
    let mut reader = Reader::default();
    let read = reader.value(&mut scanner, schema, &At::Root).and_then(|value| {
        scanner.end()?;
        Ok(value)
    });
    let value = match (read, reader.error.take()) {
        (Err(Stop::Syntax(text)), _) => return Err(ReadError::Syntax(text)),
        (Err(Stop::Refused(text)), _) | (Ok(_), Some(text)) => {
            // Go looks at the syntax of the whole before it looks at any value.
            syntax::check(data).map_err(|error| ReadError::Syntax(error.0))?;
            return Err(ReadError::Type(text));
        }
        (Ok(value), None) => value.unwrap_or_else(|| super::zero::zero(schema)),
    };
    if schema.go.is_some() && reader.strict.iter().any(|strict| strict.fault == Fault::Duplicate) {
        let merged = merge::read(&mut Scanner::new(data), schema).map_err(refusal)?;
        return Ok(Read { value: read_value(merged, schema)?.value, strict: reader.strict });
    }
    Ok(Read { value, strict: reader.strict })
}

/// Reads a JSON value as that type, as [`read_json`] does with its text.
///
/// # Errors
/// When a value does not fit its type.
pub fn read_value(value: Value, schema: &Schema) -> Result<Read, ReadError> {
    let mut reader = Reader::default();
    let read = reader.value(&mut Owned(value), schema, &At::Root).map_err(refusal)?;
    if let Some(text) = reader.error {
        return Err(ReadError::Type(text));
    }
    Ok(Read { value: read.unwrap_or_else(|| super::zero::zero(schema)), strict: reader.strict })
}

/// Reads JSON text of no known type as Go does: whole floats become integers.
///
/// # Errors
/// When it is not JSON.
pub fn untyped_json(data: &[u8]) -> Result<Value, ReadError> {
    let mut scanner = Scanner::new(data);
    let value = Reader::default().any(&mut scanner, false, &At::Root).map_err(refusal)?;
    scanner.end().map_err(|error| ReadError::Syntax(error.0))?;
    Ok(value)
}

fn refusal(stop: Stop) -> ReadError {
    match stop {
        Stop::Syntax(text) => ReadError::Syntax(text),
        Stop::Refused(text) => ReadError::Type(text),
    }
}

/// The state of one read.
#[derive(Default)]
struct Reader {
    strict: Vec<Strict>,
    /// The first wrong type; reading goes on, for the syntax of the rest.
    error: Option<String>,
    /// Within a type that unmarshals itself nothing is strict.
    lenient: bool,
}

impl Reader {
    fn strict(&mut self, fault: Fault, at: &At<'_>, name: &str) {
        if self.lenient || self.strict.len() >= STRICT_LIMIT {
            return;
        }
        let strict = Strict { fault, path: at.path(name) };
        if !self.strict.contains(&strict) {
            self.strict.push(strict);
        }
    }

    /// Remembers that a value of that description does not fit, and passes it by.
    fn mismatch<I: Input>(
        &mut self,
        input: &mut I,
        found: &str,
        ty: &Schema,
        at: &At<'_>,
    ) -> Result<Option<Value>, Stop> {
        let go = ty.go.as_deref().unwrap_or("interface {}");
        if self.error.is_none() {
            self.error = Some(mismatch_text(found, go, at));
        }
        input.skip()?;
        Ok(None)
    }
}

fn mismatch_text(found: &str, go: &str, at: &At<'_>) -> String {
    match at.go() {
        Some((owner, path)) => {
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go}")
        }
        None => format!("json: cannot unmarshal {found} into Go value of type {go}"),
    }
}

#[cfg(test)]
mod tests;
