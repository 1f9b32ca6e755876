//! Operators and functions on values. The most frequent ones are here, because the library's copy their arguments.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::common::ast::operators;
use kube_cel::cel::objects::{Key, Map, OptionalValue};

use super::budget::{self, Budget};
use super::outcome::{Fault, Outcome, fault, none, some};
use super::{evaluate, more, types};

#[allow(
    clippy::disallowed_types,
    reason = "the evaluator's own maps; loops go over them in the order of their keys"
)]
pub(super) type Entries = std::collections::HashMap<Key, Value>;

pub(super) fn map(entries: Entries) -> Value {
    Value::Map(Map { map: Arc::new(entries) })
}

/// The value as a key of a map, if it can be one.
pub(super) fn key(value: &Value) -> Option<Key> {
    Some(match value {
        Value::Int(number) => Key::Int(*number),
        Value::UInt(number) => Key::Uint(*number),
        Value::Bool(flag) => Key::Bool(*flag),
        Value::String(text) => Key::String(text.clone()),
        #[allow(clippy::cast_possible_truncation, reason = "whole floats are equal to their integers")]
        Value::Float(number) if number.fract() == 0.0 => Key::Int(*number as i64),
        _ => return None,
    })
}

pub(super) fn shown_key(key: &Key) -> String {
    shown(&Value::from(key))
}

/// The value as Go prints it in errors.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::String(text) => text.to_string(),
        other => go_type(other).to_owned(),
    }
}

/// The name of the type in cel-go.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "types.Int",
        Value::UInt(_) => "types.Uint",
        Value::Float(_) => "types.Double",
        Value::Bool(_) => "types.Bool",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Null => "types.Null",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        _ => "types.Unknown",
    }
}

pub(super) fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Map(map) => map.map.get(&Key::String(Arc::new(name.to_owned()))),
        _ => None,
    }
}

/// The value at an index.
///
/// # Errors
/// The index is of a type that the value has no index of.
pub(super) fn index(value: &Value, index: &Value) -> Result<Option<Value>, String> {
    match value {
        Value::Map(map) => {
            let Some(key) = key(index) else { return Ok(None) };
            Ok(map.get(&key).cloned())
        }
        Value::List(items) => {
            let at = match index {
                Value::Int(at) => usize::try_from(*at).ok(),
                Value::UInt(at) => usize::try_from(*at).ok(),
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the float is whole and not negative"
                )]
                Value::Float(at) if at.fract() == 0.0 => (*at >= 0.0).then_some(*at as usize),
                other => return Err(format!("unsupported index type '{}' in list", types::type_name(other))),
            };
            Ok(at.and_then(|at| items.get(at).cloned()))
        }
        _ => Ok(None),
    }
}

/// Whether a list has the value, or a map the key.
pub(super) fn contains(value: &Value, within: &Value) -> Outcome {
    Ok(Value::Bool(match within {
        Value::List(items) => items.contains(value),
        Value::Map(map) => key(value).is_some_and(|key| map.get(&key).is_some()),
        _ => return fault("no such overload"),
    }))
}

/// The largest precision that Rust formats a number with. Beyond it the library would panic.
const MAX_PRECISION: u64 = 65_535;

/// About how many bytes a function makes of its arguments beyond what they take themselves.
pub(super) fn expected(name: &str, args: &[Option<Value>]) -> u64 {
    let size = |at: usize| match args.get(at) {
        Some(Some(Value::String(text))) => text.len() as u64,
        _ => 0,
    };
    match (name, args.first()) {
        ("join", Some(Some(Value::List(items)))) => {
            let texts = items.iter().map(budget::footprint).sum::<u64>();
            texts.saturating_add(size(1).saturating_mul(items.len() as u64))
        }
        ("replace", Some(Some(Value::String(text)))) => {
            let times = text.len() as u64 / size(1).max(1) + 1;
            times.saturating_mul(size(2))
        }
        ("format", Some(Some(Value::String(pattern)))) => {
            let texts = args.get(1).and_then(Option::as_ref).map_or(0, budget::footprint);
            precisions(pattern).fold(texts, u64::saturating_add)
        }
        _ => 0,
    }
}

/// The numbers of digits that a pattern of `format` asks for.
fn precisions(pattern: &str) -> impl Iterator<Item = u64> {
    pattern.split("%.").skip(1).map(|clause| {
        let digits = clause.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(clause.len());
        match &clause[..digits] {
            "" => 0,
            digits => digits.parse().unwrap_or(u64::MAX),
        }
    })
}

/// Calls a function or an operator. The first value of a method is its target.
///
/// # Errors
/// The error in cel-go's words, or that the evaluation costs too much.
pub(super) fn call(name: &str, method: bool, args: Vec<Value>, budget: &Budget) -> Result<Value, String> {
    if let ("format", Some(Value::String(pattern))) = (name, args.first())
        && let Some(most) = precisions(pattern).find(|digits| *digits > MAX_PRECISION)
    {
        return Err(format!(
            "could not parse formatting clause: precision {most} is more than {MAX_PRECISION}"
        ));
    }
    let own = native(name, &args, budget).or_else(|| optional(name, &args));
    let Some(result) = own else { return evaluate::call(name, method, args) };
    result.map_err(|fault| match fault {
        Fault::Error(words) => words,
        Fault::Exceeded => budget::EXCEEDED.to_owned(),
    })
}

fn native(name: &str, args: &[Value], budget: &Budget) -> Option<Outcome> {
    let held = |values: &[&Value]| {
        let size = values.iter().map(|value| budget::footprint(value)).sum();
        if budget.hold(size) { Ok(()) } else { Err(Fault::Exceeded) }
    };
    Some(match (name, args) {
        (operators::EQUALS, [left, right]) => Ok(Value::Bool(left == right)),
        (operators::NOT_EQUALS, [left, right]) => Ok(Value::Bool(left != right)),
        (operators::LOGICAL_NOT, [Value::Bool(flag)]) => Ok(Value::Bool(!flag)),
        (operators::IN, [value, within]) => contains(value, within),
        (operators::ADD, [Value::String(left), Value::String(right)]) => {
            Ok(Value::String(Arc::new([left.as_str(), right.as_str()].concat())))
        }
        (operators::ADD, [Value::Bytes(left), Value::Bytes(right)]) => {
            Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())))
        }
        (operators::ADD, [left @ Value::List(first), right @ Value::List(second)]) => held(&[left, right])
            .map(|()| Value::List(Arc::new(first.iter().chain(second.iter()).cloned().collect()))),
        ("size", [value]) => Ok(Value::Int(
            i64::try_from(match value {
                Value::String(text) => text.chars().count(),
                Value::Bytes(bytes) => bytes.len(),
                Value::List(items) => items.len(),
                Value::Map(map) => map.map.len(),
                _ => return Some(fault("no such overload")),
            })
            .unwrap_or(i64::MAX),
        )),
        ("startsWith", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.starts_with(part.as_str())))
        }
        ("endsWith", [Value::String(text), Value::String(part)]) => {
            Ok(Value::Bool(text.ends_with(part.as_str())))
        }
        ("dyn", [value]) => Ok(value.clone()),
        ("string", [Value::Timestamp(_) | Value::Duration(_)]) => {
            more::written(&args[0]).map_err(Fault::Error)
        }
        ("split", [Value::String(text), Value::String(at), most @ ..]) if at.is_empty() => {
            Ok(more::letters(text, most.first()))
        }
        ("quantity" | "isQuantity", [Value::String(text)]) if more::is_suffix(text) => {
            let zero = Value::String(Arc::new(format!("0{text}")));
            evaluate::call(name, false, vec![zero]).map_err(Fault::Error)
        }
        ("type", [value]) => Ok(types::type_value(types::type_name(value))),
        ("format.named", [_]) => Ok(match evaluate::call(name, false, args.to_vec()) {
            Ok(found @ Value::Opaque(_)) => some(found),
            _ => none(),
        }),
        ("@sortByAssociatedKeys", [items, keys]) => more::sorted(items, keys).map_err(Fault::Error),
        (part, [time, zone]) if more::PARTS.contains(&part) => {
            more::time_in(time, zone, part).map_err(Fault::Error)
        }
        (_, [Value::Int(left), Value::Int(right)]) => return compare(name, left.cmp(right)),
        (_, [Value::String(left), Value::String(right)]) => return compare(name, left.cmp(right)),
        _ => return None,
    })
}

fn compare(name: &str, order: Ordering) -> Option<Outcome> {
    let holds = match name {
        operators::LESS => order.is_lt(),
        operators::LESS_EQUALS => order.is_le(),
        operators::GREATER => order.is_gt(),
        operators::GREATER_EQUALS => order.is_ge(),
        _ => return None,
    };
    Some(Ok(Value::Bool(holds)))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) => *number == 0,
        Value::UInt(number) => *number == 0,
        Value::Float(number) => *number == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(map) => map.map.is_empty(),
        Value::Duration(length) => length.is_zero(),
        Value::Opaque(_) => <&OptionalValue>::try_from(value).is_ok_and(|own| own.value().is_none()),
        _ => false,
    }
}

/// The functions of optional values.
fn optional(name: &str, args: &[Value]) -> Option<Outcome> {
    Some(match (name, args) {
        ("optional.none", []) => Ok(none()),
        ("optional.of", [value]) => Ok(some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if is_zero(value) => Ok(none()),
        ("optional.ofNonZeroValue", [value]) => Ok(some(value.clone())),
        ("first", [Value::List(items)]) => Ok(items.first().map_or_else(none, |item| some(item.clone()))),
        ("last", [Value::List(items)]) => Ok(items.last().map_or_else(none, |item| some(item.clone()))),
        ("optional.unwrap" | "unwrapOpt", [Value::List(items)]) => {
            let mut made = Vec::new();
            for item in items.iter() {
                let Ok(own) = <&OptionalValue>::try_from(item) else {
                    return Some(fault(format!("value {} is not optional", shown(item))));
                };
                made.extend(own.value().cloned());
            }
            Ok(Value::List(Arc::new(made)))
        }
        ("hasValue" | "value", [value]) => match <&OptionalValue>::try_from(value) {
            Ok(own) if name == "hasValue" => Ok(Value::Bool(own.value().is_some())),
            Ok(own) => match own.value() {
                Some(value) => Ok(value.clone()),
                None => fault("optional.none() dereference"),
            },
            Err(_) => fault("no such overload"),
        },
        _ => return None,
    })
}
