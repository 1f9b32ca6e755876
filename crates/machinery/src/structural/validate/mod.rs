//! Validation of custom objects by their schema, with the paths, values and words of kube-apiserver, and
//! ratcheting: what did not change on an update is not held against it.

mod formats;
mod junctors;
mod lists;
mod number;
mod failure;
mod ratchet;

pub(super) use failure::Failure;
pub(super) use formats::is_known as is_known_format;
pub(super) use lists::check as lists;
pub use ratchet::OldItems;
pub(super) use ratchet::unchanged;

use serde_json::{Map, Value};

use super::props::Props;
use crate::Interrupt;
use crate::fieldset::values_equal;
use failure::What;
use setpoint_api::cause::{Cause, Path};

/// Returns the faults of `value`, which stands at `path`. `old` is the value before an update.
pub(super) fn values(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    path: &Path,
    interrupt: &Interrupt,
) -> Vec<Cause> {
    let outcome = ratcheted(value, old, props, "", interrupt);
    outcome.failures.into_iter().map(|failure| failure.into_cause(path)).collect()
}

/// Failures, and how many checks passed: of several alternatives the one that came closest is reported.
#[derive(Default)]
pub(super) struct Outcome {
    failures: Vec<Failure>,
    matched: usize,
}

impl Outcome {
    fn fail(&mut self, name: &str, what: What) {
        self.failures.push(Failure { name: name.to_owned(), what });
    }

    fn merge(&mut self, other: Outcome) {
        self.failures.extend(other.failures);
        self.matched += other.matched;
    }
}

/// Validates one value; failures of one that did not change are dropped.
fn ratcheted(
    value: &Value,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
) -> Outcome {
    let outcome = node(value, old, props, name, interrupt);
    match old {
        Some(old) if !outcome.failures.is_empty() && ratchet::unchanged(value, old, props) => {
            Outcome::default()
        }
        _ => outcome,
    }
}

/// The types that a value may have.
fn types(props: &Props) -> Vec<&str> {
    if props.int_or_string {
        vec!["integer", "string"]
    } else if props.kind.is_empty() {
        Vec::new()
    } else {
        vec![&props.kind]
    }
}

/// The format as far as it is checked: others are ignored.
fn format(props: &Props) -> &str {
    let kind = if props.int_or_string { "" } else { props.kind.as_str() };
    let known = match kind {
        "" | "string" => formats::is_known(&props.format),
        "integer" => matches!(props.format.as_str(), "int32" | "int64"),
        "number" => matches!(props.format.as_str(), "float" | "double"),
        _ => false,
    };
    if known { &props.format } else { "" }
}

/// Validates a value on its own, children included. A schema may name one value many times (`allOf`), so the work is not
/// bounded by the size of the object alone.
fn node(value: &Value, old: Option<&Value>, props: &Props, name: &str, interrupt: &Interrupt) -> Outcome {
    let mut out = Outcome::default();
    if interrupt.is_raised() {
        return out;
    }
    if value.is_null() {
        let types = types(props);
        if !types.is_empty() && !props.nullable {
            out.fail(name, What::wrong_type(name, &types.join(","), "null"));
        }
        enumeration(value, props, name, &mut out);
        return out;
    }
    let (types, format) = (types(props), format(props));
    if !types.is_empty() || !format.is_empty() {
        check_type(value, &types, format, name, &mut out);
        out.matched += 1;
    }
    out.merge(junctors::check(value, old, props, name, interrupt));
    out.matched += 1;
    match value {
        Value::String(text) => {
            string(text, props, name, &mut out);
            out.matched += 1;
            if !format.is_empty() && formats::is_known(format) {
                if !formats::matches(format, text) {
                    out.fail(name, What::wrong_format(name, format, text));
                }
                out.matched += 1;
            }
        }
        Value::Number(number) => {
            number::check(number, props, format, name, &mut out);
            out.matched += 2;
        }
        Value::Array(items) => {
            list(items, old, props, name, interrupt, &mut out);
            out.matched += 2;
        }
        _ => {}
    }
    enumeration(value, props, name, &mut out);
    out.matched += 1;
    if let Value::Object(fields) = value {
        object(fields, old, props, name, interrupt, &mut out);
        out.matched += 1;
    }
    out.matched += 1;
    out
}

fn check_type(value: &Value, types: &[&str], format: &str, name: &str, out: &mut Outcome) {
    let (own, own_format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        // Go decodes what does not fit 64 signed bits as a float.
        Value::Number(number) if number.as_i64().is_none() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    };
    let whole = value.as_f64().is_some_and(number::is_whole);
    let fits = types.contains(&own)
        || (own == "number" && whole && types.contains(&"integer"))
        || (own == "integer" && types.contains(&"number"));
    let sequence = matches!(value, Value::String(_) | Value::Array(_));
    let numeric = types.contains(&"number") || types.contains(&"integer");
    if !sequence && !format.is_empty() && !fits && own_format != format {
        return out.fail(name, What::wrong_type(name, format, own_format));
    }
    if !numeric && !format.is_empty() && sequence {
        out.matched += 1;
        return;
    }
    if fits {
        out.matched += 1;
    } else {
        out.fail(name, What::wrong_type(name, &types.join(","), own));
    }
}

/// Length and pattern; the first failure hides the others.
fn string(text: &str, props: &Props, name: &str, out: &mut Outcome) {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = props.max_length.filter(|most| length > *most) {
        return out.fail(name, What::TooLong(most));
    }
    if let Some(least) = props.min_length.filter(|least| length < *least) {
        let message = format!("{name} in body should be at least {least} chars long");
        return out.fail(name, What::Invalid { value: text.into(), message });
    }
    if props.pattern.is_empty() {
        return;
    }
    let matches = props.matches(text);
    if !matches {
        let message = format!("{name} in body should match '{}'", props.pattern);
        out.fail(name, What::Invalid { value: text.into(), message });
    }
}

fn enumeration(value: &Value, props: &Props, name: &str, out: &mut Outcome) {
    let listed = |allowed: &Value| !allowed.is_null() && !value.is_null() && values_equal(allowed, value);
    if !props.enumeration.is_empty() && !props.enumeration.iter().any(listed) {
        out.fail(name, What::NotOneOf { value: value.clone(), allowed: props.enumeration.clone() });
    }
}

fn list(
    items: &[Value],
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
    out: &mut Outcome,
) {
    if let Some(item_props) = &props.items {
        let old = OldItems::of(old, props);
        for (at, item) in items.iter().enumerate() {
            let old = old.get(item);
            out.merge(ratcheted(item, old, item_props, &format!("{name}[{at}]"), interrupt));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = props.min_items.filter(|least| size < *least) {
        let message = format!("{name} in body should have at least {least} items");
        out.fail(name, What::Invalid { value: size.into(), message });
    }
    if let Some(most) = props.max_items.filter(|most| size > *most) {
        out.fail(name, What::TooMany { has: size, most });
    }
}

fn object(
    fields: &Map<String, Value>,
    old: Option<&Value>,
    props: &Props,
    name: &str,
    interrupt: &Interrupt,
    out: &mut Outcome,
) {
    let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(least) = props.min_properties.filter(|least| size < *least) {
        let message = format!("{name} in body should have at least {least} properties");
        out.fail(name, What::Invalid { value: size.into(), message });
    }
    if let Some(most) = props.max_properties.filter(|most| size > *most) {
        out.fail(name, What::TooMany { has: size, most });
    }
    let old_field = |key: &str| {
        // The version and kind of old and new are the same by conversion, which says nothing about change.
        let is_type = name.is_empty() && (key == "kind" || key == "apiVersion");
        old.filter(|_| !is_type).and_then(|old| old.get(key))
    };
    match &props.additional {
        Some(additional) if !additional.allows => {
            for key in fields.keys().filter(|key| !props.properties.contains_key(*key)) {
                let message = format!("{name}.{key} in body is a forbidden property");
                out.fail(name, What::Invalid { value: key.as_str().into(), message });
            }
        }
        Some(additional) => {
            if let Some(schema) = &additional.schema {
                for (key, value) in fields.iter().filter(|(key, _)| !props.properties.contains_key(*key)) {
                    let child = format!("{name}.{key}");
                    out.merge(ratcheted(value, old_field(key), schema, &child, interrupt));
                }
            }
        }
        None => {}
    }
    for (key, schema) in &props.properties {
        if let Some(value) = fields.get(key) {
            let child = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            out.merge(ratcheted(value, old_field(key), schema, &child, interrupt));
        }
    }
    for key in props.required.iter().filter(|key| !fields.contains_key(*key)) {
        out.fail(&format!("{name}.{key}"), What::Required);
    }
}
