//! Filling in defaults, on the way in and on the way out of storage.

use serde_json::Value;

use super::props::Props;

/// Drops nulls that may not be and have no default, then fills in defaults.
pub(super) fn default(value: &mut Value, props: &Props) {
    drop_nulls(value, Some(props));
    fill(value, props);
}

fn is_wrong_null(value: &Value, props: &Props) -> bool {
    value.is_null() && !props.nullable
}

fn drop_nulls(value: &mut Value, props: Option<&Props>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let below = props.and_then(|props| props.child(name));
            if below.is_some_and(|props| is_wrong_null(value, props) && props.default.is_none()) {
                return false;
            }
            drop_nulls(value, below);
            true
        }),
        Value::Array(items) => {
            let below = props.and_then(|props| props.items.as_deref());
            for item in items {
                drop_nulls(item, below);
            }
        }
        _ => {}
    }
}

/// Fills in defaults.
pub(super) fn fill(value: &mut Value, props: &Props) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &props.properties {
                let Some(default) = &property.default else { continue };
                if fields.get(name).is_none_or(|value| is_wrong_null(value, property)) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = props.properties.get(name) {
                    fill(value, property);
                } else if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref())
                {
                    replace_null(value, schema);
                    fill(value, schema);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = props.items.as_deref() else { return };
            for item in items {
                replace_null(item, schema);
                fill(item, schema);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, props: &Props) {
    if let (true, Some(default)) = (is_wrong_null(value, props), &props.default) {
        *value = default.clone();
    }
}
