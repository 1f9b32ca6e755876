//! The results of evaluations.

use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::OptionalValue;

/// The end of an evaluation that has no value.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It costs too much. Nothing absorbs that.
    Exceeded,
    /// The error in cel-go's words.
    Error(String),
}

pub(super) type Outcome = Result<Value, Fault>;

pub(super) fn fault<T>(words: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Error(words.into()))
}

/// An optional with a value.
pub(super) fn some(value: Value) -> Value {
    Value::Opaque(Arc::new(OptionalValue::of(value)))
}

/// An optional without one.
pub(super) fn none() -> Value {
    Value::Opaque(Arc::new(OptionalValue::none()))
}
