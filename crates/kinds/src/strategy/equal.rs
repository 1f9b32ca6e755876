//! When two values are the same to Kubernetes.

use serde_json::{Map, Value};

/// Maps that Go leaves out of JSON when they are empty: empty and absent are the same.
const MAPS: [&str; 12] = [
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "data",
    "binaryData",
    "stringData",
    "limits",
    "requests",
    "selector",
    "parameters",
    "capacity",
];

/// Equal but for how nothing is written: absent, `null`, an empty list, an empty map.
pub fn semantically_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().all(|(name, value)| same_field(name, Some(value), other.get(name)))
                && other.iter().all(|(name, value)| one.contains_key(name) || is_nothing(name, value))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| semantically_equal(one, other))
        }
        (Value::Null, nothing) | (nothing, Value::Null) => is_nothing("", nothing),
        (one, other) => one == other,
    }
}

fn same_field(name: &str, one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if is_nothing(name, one) && is_nothing(name, other) => true,
        (Some(one), Some(other)) => semantically_equal(one, other),
        (Some(value), None) | (None, Some(value)) => is_nothing(name, value),
        (None, None) => true,
    }
}

fn is_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && MAPS.contains(&name),
        _ => false,
    }
}

/// Whether two custom objects are the same in everything but metadata. They are compared as JSON: an empty list is
/// not an absent one.
pub(super) fn same_custom(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return one == other };
    let judged = |name: &&String| !["metadata", "apiVersion"].contains(&name.as_str());
    one.keys().filter(judged).eq(other.keys().filter(judged))
        && one.iter().filter(|(name, _)| judged(name)).all(|(name, value)| other.get(name) == Some(value))
}

/// Whether two objects differ in nothing but metadata.
pub(super) fn same_but_metadata(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
    let within = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter()
            .filter(|(name, _)| !matches!(&***name, "metadata" | "apiVersion" | "kind"))
            .all(|(name, value)| same_field(name, Some(value), other.get(name)))
    };
    within(one, other) && within(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_can_be_written_in_several_ways() {
        assert!(semantically_equal(&json!({"a": 1, "b": null, "c": []}), &json!({"a": 1})));
        assert!(semantically_equal(&json!({"labels": {}}), &json!({})));
        assert!(!semantically_equal(&json!({"emptyDir": {}}), &json!({})));
        assert!(!semantically_equal(&json!({"a": 0}), &json!({"a": 1})));
        assert!(semantically_equal(&Value::Null, &json!([])));
    }
}
