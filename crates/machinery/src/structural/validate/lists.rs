//! Sets without equal items and keyed lists without equal keys.

use serde_json::{Map, Value};

use crate::structural::props::Props;
use setpoint_api::cause::{Cause, Path};

/// The duplicates in the lists of an object.
pub(in crate::structural) fn check(value: &Value, props: &Props, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    match value {
        Value::Array(items) => {
            match props.list_type.as_deref() {
                Some("set") => {
                    for at in repeated(items) {
                        causes.push(Cause::duplicate(&path.index(at), &items[at]));
                    }
                }
                Some("map") => keyed(items, props, path, &mut causes),
                _ => {}
            }
            if let Some(item_props) = &props.items {
                for (at, item) in items.iter().enumerate() {
                    causes.extend(check(item, item_props, &path.index(at)));
                }
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
                    causes.extend(check(value, schema, &path.key(name)));
                }
                if let Some(schema) = props.properties.get(name) {
                    causes.extend(check(value, schema, &path.child(name)));
                }
            }
        }
        _ => {}
    }
    causes
}

/// Returns the indexes at which items occur for the second time. Further times are not reported.
#[allow(clippy::disallowed_types, reason = "only asked for what it holds, never walked")]
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut times = std::collections::HashMap::with_capacity(items.len());
    let mut second = |item| {
        let times = times.entry(item).or_insert(0_usize);
        *times += 1;
        *times == 2
    };
    items.iter().enumerate().filter(|(_, item)| second(*item)).map(|(at, _)| at).collect()
}

fn keyed(items: &[Value], props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    for (at, item) in items.iter().enumerate() {
        if !item.is_object() && !item.is_null() {
            let detail = "must be an object for an array of list-type map";
            return causes.push(Cause::invalid(&path.index(at), item, detail));
        }
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let field = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            Value::Object(props.list_map_keys.iter().filter_map(field).collect::<Map<_, _>>())
        })
        .collect();
    for at in repeated(&keys) {
        causes.push(Cause::duplicate(&path.index(at), &keys[at]));
    }
}
