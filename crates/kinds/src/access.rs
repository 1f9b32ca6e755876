//! Reading and filling JSON objects by field path.
//!
//! An absent field, an absent parent and `null` are the same: that is how Go's decoder sees them.

use serde_json::{Map, Value};

pub(crate) static NULL: Value = Value::Null;

/// The value at a dotted path; `null` if anything on the way is absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').try_fold(value, |value, field| value.get(field)).unwrap_or(&NULL)
}

/// Text at the path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// A whole number at the path.
pub(crate) fn int(value: &Value, path: &str) -> Option<i64> {
    at(value, path).as_i64()
}

/// Whether `true` stands at the path.
pub(crate) fn truth(value: &Value, path: &str) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// The items of the list at the path.
pub(crate) fn items<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The entries of the map at the path, sorted by key.
pub(crate) fn entries<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(value, path).as_object().into_iter().flatten()
}

/// Whether the list, map or text at the path is absent or has nothing in it.
pub(crate) fn is_empty(value: &Value, path: &str) -> bool {
    match at(value, path) {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// The object at the path, made if it is absent or not an object.
pub(crate) fn object<'a>(value: &'a mut Value, path: &str) -> &'a mut Map<String, Value> {
    let mut here = as_object(value);
    for field in path.split('.').filter(|field| !field.is_empty()) {
        here = as_object(here.entry(field).or_insert(Value::Null));
    }
    here
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

/// The value at the path, to change it, where there is one.
pub(crate) fn at_mut<'a>(value: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(value, |value, field| value.get_mut(field)).filter(|value| !value.is_null())
}

/// The items of the list at the path, to change them.
pub(crate) fn items_mut<'a>(value: &'a mut Value, path: &str) -> &'a mut [Value] {
    at_mut(value, path).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Writes a value at the path, with its parents.
pub(crate) fn set(value: &mut Value, path: &str, new: Value) {
    let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
    object(value, parent).insert(field.to_owned(), new);
}

/// Takes away what stands at the path.
pub(crate) fn remove(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, field) = path.rsplit_once('.').unwrap_or(("", path));
    let parent = if parent.is_empty() { Some(value) } else { at_mut(value, parent) };
    parent?.as_object_mut()?.remove(field)
}

/// Makes a path of `target` as it is in `source`, absent if absent there.
pub(crate) fn copy(target: &mut Value, source: &Value, path: &str) {
    match at(source, path) {
        Value::Null => {
            remove(target, path);
        }
        value => set(target, path, value.clone()),
    }
}
