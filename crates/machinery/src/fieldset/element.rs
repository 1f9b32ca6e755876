//! One step of a path, and the total order that Kubernetes gives values inside it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

use setpoint_api::go_format;

/// How a child is selected.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of an object.
    Field(Arc<str>),
    /// The item of a keyed list that has these fields, sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// The item of a set.
    Value(Arc<Value>),
    /// The item at a position.
    Index(i64),
}

impl PathElement {
    /// The field of that name.
    pub fn field(name: &str) -> Self {
        PathElement::Field(Arc::from(name))
    }

    /// The item with these key fields.
    pub fn key(mut fields: Vec<(Arc<str>, Value)>) -> Self {
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(Arc::from(fields))
    }

    pub(crate) fn cmp_field(&self, name: &str) -> Ordering {
        match self {
            PathElement::Field(own) => (**own).cmp(name),
            _ => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => compare_keys(left, right),
            (PathElement::Value(left), PathElement::Value(right)) => compare_values(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => {
                Arc::ptr_eq(left, right) || left == right
            }
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for PathElement {}

fn compare_keys(left: &[(Arc<str>, Value)], right: &[(Arc<str>, Value)]) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare_values(left_value, right_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let left = left.as_f64().unwrap_or(f64::NAN);
            let right = right.as_f64().unwrap_or(f64::NAN);
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

/// Numbers before text before booleans before lists before objects before null; whole numbers and fractions
/// compare as numbers.
pub fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            for (left, right) in left.iter().zip(right) {
                let order = compare_values(left, right);
                if order != Ordering::Equal {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        (Value::Object(left), Value::Object(right)) => {
            for ((left_key, left), (right_key, right)) in left.iter().zip(right) {
                let order = left_key.cmp(right_key).then_with(|| compare_values(left, right));
                if order != Ordering::Equal {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

/// Whether two values are the same, `1` and `1.0` included.
pub fn values_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || compare_numbers(left, right) == Ordering::Equal
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| values_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((left_key, left), (right_key, right))| {
                    left_key == right_key && values_equal(left, right)
                })
        }
        _ => left == right,
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{name}={}", display_value(value))?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={}]", display_value(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn display_value(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(text) => go_format::quote(text),
        Value::Number(number) => go_format::number(number),
        Value::Bool(flag) => flag.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(display_value).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", display_value(value))).collect()
        }
    }
}
