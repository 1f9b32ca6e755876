//! Types as values.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Opaque;

/// The name under which the library knows types.
const NAME: &str = "type";

/// A type, by its name.
#[derive(Debug, PartialEq, Eq)]
struct Type(String);

impl Opaque for Type {
    fn runtime_type_name(&self) -> &str {
        NAME
    }
}

pub(super) fn type_value(name: &str) -> Value {
    Value::Opaque(Arc::new(Type(name.to_owned())))
}

/// The name of the type of a value.
pub(super) fn type_name(value: &Value) -> &str {
    match value {
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Int(_) => "int",
        Value::UInt(_) => "uint",
        Value::Float(_) => "double",
        Value::String(_) => "string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "bool",
        Value::Null => "null_type",
        Value::Timestamp(_) => "google.protobuf.Timestamp",
        Value::Duration(_) => "google.protobuf.Duration",
        Value::Opaque(opaque) => opaque.runtime_type_name(),
        Value::Function(..) => "unknown",
    }
}
