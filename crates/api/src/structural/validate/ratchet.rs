//! Which old value a new one is compared with, and whether it changed.

use serde_json::Value;

use crate::structural::props::Props;

/// The old item that a new one stands for: only keyed lists tell.
pub(in crate::structural) fn old_item<'v>(item: &Value, old: &'v Value, props: &Props) -> Option<&'v Value> {
    let Value::Array(old) = old else { return None };
    if props.list_type.as_deref() != Some("map") {
        return None;
    }
    let key = |item: &Value| -> Option<Vec<Value>> {
        item.as_object()?;
        let default = |name: &str| props.items.as_ref()?.properties.get(name)?.default.clone();
        let field = |name: &String| item.get(name).cloned().or_else(|| default(name)).unwrap_or(Value::Null);
        Some(props.list_map_keys.iter().map(field).collect())
    };
    let wanted = key(item)?;
    old.iter().find(|old| key(old).as_ref() == Some(&wanted))
}

/// Whether nothing changed. What no schema describes counts as changed, as in Kubernetes.
pub(in crate::structural) fn unchanged(new: &Value, old: &Value, props: &Props) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, new)| match (old.get(name), props.child(name)) {
                    (Some(old), Some(props)) => unchanged(new, old, props),
                    _ => false,
                })
        }
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            let Some(items) = props.items.as_deref().filter(|_| props.list_type.as_deref() == Some("map"))
            else {
                return new == old;
            };
            new_items
                .iter()
                .all(|new| old_item(new, old, props).is_some_and(|old| unchanged(new, old, items)))
        }
        _ => new == old,
    }
}
