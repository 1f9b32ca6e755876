//! One failed check, before it is a cause.

use serde_json::Value;

use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::go_format;

/// One failed check of the value named so.
#[derive(Clone, Debug)]
pub(in crate::structural) struct Failure {
    pub(super) name: String,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Required,
    NotOneOf {
        value: Value,
        allowed: Vec<Value>,
    },
    TooLong(i64),
    TooMany {
        has: i64,
        most: i64,
    },
    WrongType {
        value: String,
        message: String,
    },
    Invalid {
        value: Value,
        message: String,
    },
    /// A message that belongs to no field.
    Plain(String),
}

impl What {
    pub(super) fn wrong_type(name: &str, wanted: &str, own: &str) -> Self {
        let message = format!("{name} in body must be of type {wanted}: {}", go_format::quote(own));
        What::WrongType { value: own.into(), message }
    }

    pub(super) fn wrong_format(name: &str, format: &str, text: &str) -> Self {
        What::wrong_type(name, format, text)
    }
}

fn shown(value: &Value) -> BadValue {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            BadValue::raw(go_format::float(number.as_f64().unwrap_or(0.0)))
        }
        Value::Null => BadValue::from(""),
        other => BadValue::from(other),
    }
}

impl Failure {
    pub(super) fn into_cause(self, base: &Path) -> Cause {
        let name = self.name.strip_prefix('.').unwrap_or(&self.name);
        let path = if name.is_empty() { base.clone() } else { base.child(name) };
        let size = |number: i64| usize::try_from(number).unwrap_or(0);
        match self.what {
            What::Required => Cause::required(&path, ""),
            What::NotOneOf { value, allowed } => {
                let allowed: Vec<String> = allowed
                    .iter()
                    .map(|one| one.as_str().map_or_else(|| setpoint_api::go_format::json(one), str::to_owned))
                    .collect();
                let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
                let value = if value.is_null() { BadValue::raw("null") } else { shown(&value) };
                Cause::not_supported(&path, value, &allowed)
            }
            What::TooLong(most) => Cause::too_long(&path, size(most)),
            What::TooMany { has, most } => Cause::too_many(&path, size(has), size(most)),
            What::WrongType { value, message } => Cause::type_invalid(&path, value, &message),
            What::Invalid { value, message } => Cause::invalid(&path, shown(&value), &message),
            What::Plain(message) => Cause::invalid(base, "", &message),
        }
    }
}
