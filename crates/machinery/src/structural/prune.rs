//! Dropping fields that the schema does not know.

use serde_json::Value;

use super::props::Props;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops unknown fields and returns their paths, sorted. A resource keeps its own meta fields.
pub(super) fn prune(value: &mut Value, props: &Props, is_resource: bool) -> Vec<String> {
    let mut walk = Walk { path: String::new(), dropped: Vec::new() };
    walk.node(value, Some(props), is_resource);
    walk.dropped.sort();
    walk.dropped
}

struct Walk {
    path: String,
    dropped: Vec<String>,
}

impl Walk {
    fn below(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(length);
    }

    fn item(&mut self, at: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(&format!("[{at}]"));
        visit(self);
        self.path.truncate(length);
    }

    fn node(&mut self, value: &mut Value, props: Option<&Props>, is_resource: bool) {
        let preserves = props.is_some_and(Props::preserves);
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| self.keeps(name, value, props, is_resource, preserves));
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    let below = props.and_then(|props| props.items.as_deref());
                    // Inside a preserved list, items without a schema are preserved too.
                    if preserves && below.is_none() {
                        continue;
                    }
                    self.item(at, |walk| {
                        if preserves && !below.is_some_and(Props::preserves) {
                            walk.preserved(item, below);
                        } else {
                            walk.node(item, below, below.is_some_and(|props| props.embedded_resource));
                        }
                    });
                }
            }
            _ => {}
        }
    }

    /// An item of a preserved list: only its declared fields are looked into.
    fn preserved(&mut self, value: &mut Value, props: Option<&Props>) {
        let Some(props) = props else { return };
        match value {
            Value::Object(fields) => {
                fields.retain(|name, value| {
                    self.keeps(name, value, Some(props), props.embedded_resource, true)
                });
            }
            Value::Array(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.item(at, |walk| walk.preserved(item, props.items.as_deref()));
                }
            }
            _ => {}
        }
    }

    fn keeps(
        &mut self,
        name: &str,
        value: &mut Value,
        props: Option<&Props>,
        is_resource: bool,
        preserves: bool,
    ) -> bool {
        if is_resource && META_FIELDS.contains(&name) {
            return true;
        }
        let known = props.and_then(|props| match props.properties.get(name) {
            Some(property) => Some(Some(property)),
            None => props.additional.as_ref().map(|additional| additional.schema.as_deref()),
        });
        match known {
            Some(below) => {
                self.below(name, |walk| {
                    walk.node(value, below, below.is_some_and(|props| props.embedded_resource))
                });
                true
            }
            None if preserves => true,
            None => {
                if !META_FIELDS.contains(&name) || !self.path.is_empty() {
                    self.below(name, |walk| walk.dropped.push(walk.path.clone()));
                }
                false
            }
        }
    }
}
