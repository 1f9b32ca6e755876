//! One thing wrong with one field, in Kubernetes' words; and the path that leads to the field.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go_format::{self, quote};

/// The path of a field as error messages write it: `spec.containers[0].env[3].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// A path of one field; dots in `name` separate fields.
    pub fn new(name: impl Into<String>) -> Self {
        Path(name.into())
    }

    /// The field `name` inside this one; dots in `name` separate fields.
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The item at `index` of this list.
    pub fn index(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }

    /// The entry `key` of this map.
    pub fn key(&self, key: &str) -> Path {
        Path(format!("{}[{key}]", self.0))
    }

    /// Whether this is the object itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go prints this for an empty path.
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

/// The kind of fault in a field: the `reason` of a Status cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are Kubernetes' own and say it")]
pub enum CauseType {
    FieldValueNotFound,
    FieldValueRequired,
    FieldValueDuplicate,
    FieldValueInvalid,
    FieldValueNotSupported,
    FieldValueForbidden,
    FieldValueTooLong,
    FieldValueTooMany,
    FieldValueTooFew,
    FieldValueTooShort,
    FieldValueTypeInvalid,
    InternalError,
}

impl CauseType {
    /// The words that open the message.
    pub fn words(self) -> &'static str {
        match self {
            CauseType::FieldValueNotFound => "Not found",
            CauseType::FieldValueRequired => "Required value",
            CauseType::FieldValueDuplicate => "Duplicate value",
            CauseType::FieldValueInvalid | CauseType::FieldValueTypeInvalid => "Invalid value",
            CauseType::FieldValueNotSupported => "Unsupported value",
            CauseType::FieldValueForbidden => "Forbidden",
            CauseType::FieldValueTooLong => "Too long",
            CauseType::FieldValueTooMany => "Too many",
            CauseType::FieldValueTooFew => "Too few",
            CauseType::FieldValueTooShort => "Too short",
            CauseType::InternalError => "Internal error",
        }
    }

    /// As a Status cause has it.
    pub fn as_str(self) -> &'static str {
        match self {
            CauseType::FieldValueNotFound => "FieldValueNotFound",
            CauseType::FieldValueRequired => "FieldValueRequired",
            CauseType::FieldValueDuplicate => "FieldValueDuplicate",
            CauseType::FieldValueInvalid => "FieldValueInvalid",
            CauseType::FieldValueNotSupported => "FieldValueNotSupported",
            CauseType::FieldValueForbidden => "FieldValueForbidden",
            CauseType::FieldValueTooLong => "FieldValueTooLong",
            CauseType::FieldValueTooMany => "FieldValueTooMany",
            CauseType::FieldValueTooFew => "FieldValueTooFew",
            CauseType::FieldValueTooShort => "FieldValueTooShort",
            CauseType::FieldValueTypeInvalid => "FieldValueTypeInvalid",
            CauseType::InternalError => "InternalError",
        }
    }
}

/// A value as a message shows it: text in quotes, numbers bare, everything else as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue(String);

impl BadValue {
    /// Text that is shown as it stands, such as JSON in an order of its own.
    pub fn raw(text: impl Into<String>) -> Self {
        BadValue(text.into())
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        BadValue(quote(text))
    }
}
impl From<&String> for BadValue {
    fn from(text: &String) -> Self {
        BadValue(quote(text))
    }
}
impl From<String> for BadValue {
    fn from(text: String) -> Self {
        BadValue(quote(&text))
    }
}
impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        BadValue(number.to_string())
    }
}
impl From<bool> for BadValue {
    fn from(truth: bool) -> Self {
        BadValue(truth.to_string())
    }
}
impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => BadValue(quote(text)),
            other => BadValue(go_format::json(other)),
        }
    }
}

/// One field error, as it stands in `details.causes` of a Status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The kind of fault.
    pub reason: CauseType,
    /// The words, without the field.
    pub message: String,
    /// The field.
    pub field: String,
}

impl fmt::Display for Cause {
    /// `spec.x: Invalid value: …`, as the message of a Status has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl Cause {
    fn new(reason: CauseType, path: &Path, value: Option<BadValue>, detail: &str) -> Self {
        let mut message = reason.words().to_owned();
        if let Some(BadValue(value)) = value {
            message.push_str(": ");
            message.push_str(&value);
        }
        if !detail.is_empty() {
            message.push_str(": ");
            message.push_str(detail);
        }
        Cause { reason, message, field: path.to_string() }
    }

    /// The value is malformed or out of bounds.
    pub fn invalid(path: &Path, value: impl Into<BadValue>, detail: &str) -> Self {
        Cause::new(CauseType::FieldValueInvalid, path, Some(value.into()), detail)
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(path: &Path, value: impl Into<BadValue>, detail: &str) -> Self {
        Cause::new(CauseType::FieldValueTypeInvalid, path, Some(value.into()), detail)
    }

    /// There is no value.
    pub fn required(path: &Path, detail: &str) -> Self {
        Cause::new(CauseType::FieldValueRequired, path, None, detail)
    }

    /// The value is there and may not be, as things are.
    pub fn forbidden(path: &Path, detail: &str) -> Self {
        Cause::new(CauseType::FieldValueForbidden, path, None, detail)
    }

    /// The value is not one of those allowed.
    pub fn not_supported(path: &Path, value: impl Into<BadValue>, allowed: &[&str]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(|one| quote(one)).collect();
        let detail = if allowed.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", allowed.join(", "))
        };
        Cause::new(CauseType::FieldValueNotSupported, path, Some(value.into()), &detail)
    }

    /// The value occurs twice.
    pub fn duplicate(path: &Path, value: impl Into<BadValue>) -> Self {
        Cause::new(CauseType::FieldValueDuplicate, path, Some(value.into()), "")
    }

    /// The value names something that is not there.
    pub fn not_found(path: &Path, value: impl Into<BadValue>) -> Self {
        Cause::new(CauseType::FieldValueNotFound, path, Some(value.into()), "")
    }

    /// The value has more than `most` bytes.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {most} {unit}");
        Cause::new(CauseType::FieldValueTooLong, path, None, &detail)
    }

    /// The value has more than `most` characters.
    pub fn too_many_characters(path: &Path, most: usize) -> Self {
        let unit = if most == 1 { "character" } else { "characters" };
        let detail = format!("may not be more than {most} {unit}");
        Cause::new(CauseType::FieldValueTooLong, path, None, &detail)
    }

    /// The value is wrong and too large or too secret to show.
    pub fn invalid_unshown(path: &Path, detail: &str) -> Self {
        Cause::new(CauseType::FieldValueInvalid, path, None, detail)
    }

    /// The list has more than `most` items.
    pub fn too_many(path: &Path, has: usize, most: usize) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        Cause::new(CauseType::FieldValueTooMany, path, Some(BadValue::raw(has.to_string())), &detail)
    }

    /// Something went wrong that is not the user's doing.
    pub fn internal(path: &Path, detail: &str) -> Self {
        Cause::new(CauseType::InternalError, path, None, detail)
    }
}

/// All errors in one line: one as it is, several in brackets, equal ones once.
pub fn aggregate(causes: &[Cause]) -> String {
    let mut seen: Vec<String> = Vec::with_capacity(causes.len());
    for cause in causes {
        let line = cause.to_string();
        if !seen.contains(&line) {
            seen.push(line);
        }
    }
    match seen.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_read_as_kubernetes_writes_them() {
        let path = Path::new("spec").child("ports").index(0).child("port");
        assert_eq!(
            Cause::invalid(&path, 0, "must be between 1 and 65535, inclusive").to_string(),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"
        );
        assert_eq!(
            Cause::not_supported(&path, "X", &["A", "B"]).message,
            r#"Unsupported value: "X": supported values: "A", "B""#
        );
        assert_eq!(Cause::required(&path, "").message, "Required value");
        assert_eq!(Cause::invalid(&Path::default(), "x", "bad").field, "<nil>");
    }

    #[test]
    fn equal_causes_are_aggregated_once() {
        let one = Cause::required(&Path::new("a"), "");
        let two = Cause::required(&Path::new("b"), "");
        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(aggregate(&[one.clone(), one.clone()]), "[a: Required value]".trim_matches(['[', ']']));
        assert_eq!(aggregate(&[one, two]), "[a: Required value, b: Required value]");
    }
}
