//! JSON patches: how a typed change becomes a change of the object as the API server sent it.

use serde_json::{Map, Value, json};

/// Returns `raw` with the change from `before` to `after`.
///
/// `before` is the typed form of `raw`. The type may not know every field of `raw`, and may add defaults of its own.
/// Only what differs between the typed forms is changed, so that neither reaches the API server.
pub(super) fn carry_over(raw: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return raw.clone();
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            Value::Object(carry_over_fields(raw, before, after))
        }
        (Value::Array(raw), Value::Array(before), Value::Array(after)) if raw.len() == before.len() => {
            Value::Array(carry_over_items(raw, before, after))
        }
        _ => after.clone(),
    }
}

fn carry_over_fields(
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut changed = raw.clone();
    changed.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
    for (name, value) in after {
        let was = before.get(name);
        if was == Some(value) {
            continue;
        }
        let value = match (raw.get(name), was) {
            (Some(raw), Some(was)) => carry_over(raw, was, value),
            _ => value.clone(),
        };
        changed.insert(name.clone(), value);
    }
    changed
}

/// Items at the beginning and the end that did not change keep the fields that the type does not know.
fn carry_over_items(raw: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let (head, tail) = common_ends(before, after);
    let middle = head..after.len() - tail;
    let same_length = before.len() == after.len();
    let mut items = raw[..head].to_vec();
    for at in middle {
        items.push(match same_length {
            true => carry_over(&raw[at], &before[at], &after[at]),
            false => after[at].clone(),
        });
    }
    items.extend_from_slice(&raw[raw.len() - tail..]);
    items
}

/// The number of equal items at the beginning, and of further ones at the end.
fn common_ends(before: &[Value], after: &[Value]) -> (usize, usize) {
    let head = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let rest = before[head..].iter().rev().zip(after[head..].iter().rev());
    (head, rest.take_while(|(one, other)| one == other).count())
}

/// Returns the operations of a JSON patch that make `after` of `before`.
pub(super) fn difference(before: &Value, after: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare(&mut operations, &mut String::new(), before, after);
    operations
}

fn compare(operations: &mut Vec<Value>, path: &mut String, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_fields(operations, path, before, after),
        (Value::Array(before), Value::Array(after)) => compare_items(operations, path, before, after),
        _ => operations.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

fn compare_fields(
    operations: &mut Vec<Value>,
    path: &mut String,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) {
    for (name, was) in before {
        within(path, &escaped(name), |path| match after.get(name) {
            None => operations.push(json!({"op": "remove", "path": path})),
            Some(value) => compare(operations, path, was, value),
        });
    }
    for (name, value) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        within(path, &escaped(name), |path| {
            operations.push(json!({"op": "add", "path": path, "value": value}));
        });
    }
}

fn compare_items(operations: &mut Vec<Value>, path: &mut String, before: &[Value], after: &[Value]) {
    let (head, tail) = common_ends(before, after);
    let (removed, added) = (before.len() - head - tail, after.len() - head - tail);
    let both = removed.min(added);
    for at in head..head + both {
        within(path, &at.to_string(), |path| compare(operations, path, &before[at], &after[at]));
    }
    // From the end, because each removal moves the items behind it.
    for at in (head + both..head + removed).rev() {
        within(path, &at.to_string(), |path| operations.push(json!({"op": "remove", "path": path})));
    }
    for (at, value) in after.iter().enumerate().take(head + added).skip(head + both) {
        within(path, &at.to_string(), |path| {
            operations.push(json!({"op": "add", "path": path, "value": value}));
        });
    }
}

fn within(path: &mut String, step: &str, with: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(step);
    with(path);
    path.truncate(length);
}

/// A field's name as a JSON pointer has it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 6902, the three operations that are made here.
    fn apply(object: &mut Value, operations: &[Value]) {
        for operation in operations {
            let path = operation["path"].as_str().unwrap();
            let value = operation["value"].clone();
            let Some((parent, step)) = path.rsplit_once('/') else {
                *object = value;
                continue;
            };
            let step = step.replace("~1", "/").replace("~0", "~");
            let verb = operation["op"].as_str().unwrap();
            match (object.pointer_mut(parent).unwrap(), verb) {
                (Value::Object(fields), "remove") => assert!(fields.remove(&step).is_some(), "{operation}"),
                (Value::Object(fields), verb) => {
                    assert_eq!(fields.insert(step, value).is_some(), verb == "replace", "{operation}");
                }
                (Value::Array(items), "remove") => drop(items.remove(step.parse().unwrap())),
                (Value::Array(items), "replace") => items[step.parse::<usize>().unwrap()] = value,
                (Value::Array(items), _) => items.insert(step.parse().unwrap(), value),
                (other, _) => panic!("{operation} in {other}"),
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map("[ab/~]{1,2}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_leads_from_one_value_to_the_other(before in values(), after in values()) {
            let mut patched = before.clone();
            apply(&mut patched, &difference(&before, &after));
            prop_assert_eq!(patched, after);
        }

        #[test]
        fn a_type_that_knows_everything_carries_everything_over(before in values(), after in values()) {
            prop_assert_eq!(carry_over(&before, &before, &after), after);
        }
    }

    #[test]
    fn fields_that_the_type_does_not_know_stay() {
        let raw = json!({"spec": {"new": 1, "ports": [{"port": 1, "hint": "x"}, {"port": 2, "hint": "y"}]}});
        let before = json!({"spec": {"image": "", "ports": [{"port": 1}, {"port": 2}]}});
        let mut after = before.clone();
        after["spec"]["image"] = json!("set");
        after["spec"]["ports"][1]["port"] = json!(3);
        let changed = carry_over(&raw, &before, &after);
        let ports = json!([{"port": 1, "hint": "x"}, {"port": 3, "hint": "y"}]);
        assert_eq!(changed, json!({"spec": {"new": 1, "image": "set", "ports": ports}}));
        // The type's own default is no change: the author did not make it.
        assert_eq!(carry_over(&raw, &before, &before), raw);
        let operations = difference(&raw, &changed);
        assert_eq!(operations.len(), 2, "{operations:?}");
        let removed = json!({"spec": {"image": "", "ports": [{"port": 2}]}});
        assert_eq!(carry_over(&raw, &before, &removed)["spec"]["ports"], json!([{"port": 2, "hint": "y"}]));
    }
}
