//! Which old value a new one is compared with, and whether it changed.

use serde_json::Value;

use crate::structural::props::Props;

/// The items of an old list by their keys: looking for each new one in turn would take the square of their number.
pub struct OldItems<'v, 'p> {
    #[allow(clippy::disallowed_types, reason = "only asked for what it holds, never walked")]
    items: std::collections::HashMap<Vec<Value>, &'v Value>,
    props: &'p Props,
}

impl<'v, 'p> OldItems<'v, 'p> {
    /// Those of a list that this schema describes. Only keyed lists tell which item is which.
    pub fn of(old: Option<&'v Value>, props: &'p Props) -> Self {
        let keyed = props.list_type.as_deref() == Some("map");
        let mut found = OldItems { items: Default::default(), props };
        for item in old.filter(|_| keyed).and_then(Value::as_array).into_iter().flatten() {
            if let Some(key) = found.key(item) {
                found.items.entry(key).or_insert(item);
            }
        }
        found
    }

    /// The old item that a new one stands for.
    pub fn get(&self, item: &Value) -> Option<&'v Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&self.key(item)?).copied()
    }

    fn key(&self, item: &Value) -> Option<Vec<Value>> {
        item.as_object()?;
        let default = |name: &str| self.props.items.as_ref()?.properties.get(name)?.default.clone();
        let field = |name: &String| item.get(name).cloned().or_else(|| default(name)).unwrap_or(Value::Null);
        Some(self.props.list_map_keys.iter().map(field).collect())
    }
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
            let old = OldItems::of(Some(old), props);
            new_items.iter().all(|new| old.get(new).is_some_and(|old| unchanged(new, old, items)))
        }
        _ => new == old,
    }
}
