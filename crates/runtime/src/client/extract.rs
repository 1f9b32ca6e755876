//! The part of an object that somebody applied, by its field set.
//!
//! A field set does not say of a map that it names and nothing below it whether the map has one owner or was applied
//! empty, and others may have put something into it. Of the first all is owned, of the second nothing but the map. The
//! schema of a built-in kind tells them apart; of another kind the field sets of all others do: into a map with one
//! owner nobody else reaches.

use kube::core::ApiResource;
use serde_json::{Map, Value};
use setpoint_schema::{Codec, Node, Schema, Shape, Struct, builtin};

use super::owned::{is, keys};

/// The knowledge of one place of an object, beside who owns it.
#[derive(Clone, Default)]
pub(super) struct Known<'a> {
    schema: Option<Schema>,
    /// The field sets of all others at this place; `None` where they are not known.
    others: Option<Vec<&'a Value>>,
}

impl<'a> Known<'a> {
    /// The metadata is known for any kind.
    pub(super) fn of(resource: &ApiResource) -> Self {
        let schema = builtin().schema(&resource.group, &resource.version, &resource.kind);
        Known { schema: schema.or_else(metadata_alone), others: None }
    }

    pub(super) fn with_others(self, others: Vec<&'a Value>) -> Self {
        Known { others: Some(others), ..self }
    }

    /// At a field, or at an item of a list, which has no `name`.
    fn below(&self, element: &str, name: Option<&str>) -> Self {
        let schema = self.schema.as_ref().and_then(|schema| match (&schema.shape, name) {
            (Shape::List { item, .. }, None) => Some(item.resolve()),
            (Shape::Any, _) => Some(schema.clone()),
            (_, Some(name)) => schema.child(name),
            _ => None,
        });
        let below =
            |others: &Vec<&'a Value>| others.iter().filter_map(|fields| fields.get(element)).collect();
        Known { schema, others: self.others.as_ref().map(below) }
    }

    /// Whether several may own parts of a map; `None` if nothing says so.
    fn is_shared(&self) -> Option<bool> {
        match self.schema.as_ref().map(|schema| (&schema.shape, schema.codec)) {
            Some((Shape::Struct(fields), _)) => return Some(!fields.atomic),
            Some((Shape::Map { atomic, .. }, _)) => return Some(!atomic),
            Some((Shape::Any, codec)) => return Some(codec != Codec::RawExtension),
            _ => {}
        }
        let reaches_into = |fields: &&Value| {
            fields.as_object().is_some_and(|fields| fields.keys().any(|element| element != "."))
        };
        Some(self.others.as_ref()?.iter().any(reaches_into))
    }
}

fn metadata_alone() -> Option<Schema> {
    let any = builtin().schema("", "v1", "ConfigMap")?;
    let Shape::Struct(fields) = &any.shape else { return None };
    let mut alone = Struct::default();
    alone.fields = vec![fields.field("metadata")?.clone()];
    Some(Schema::of(Node::new(Shape::Struct(alone))))
}

/// The part of a cached object that `fields` names; `None` if the server has to be asked. Most can be told without the
/// schemas of all kinds, which take memory once they are looked at.
pub(super) fn extract_cached(fields: &Value, stored: &Value, resource: &ApiResource) -> Option<Value> {
    extract(fields, stored, &Known::default()).or_else(|| extract(fields, stored, &Known::of(resource)))
}

/// The part of `stored` that `fields` names; `None` if that cannot be told without the field sets of all others.
pub(super) fn extract(fields: &Value, stored: &Value, known: &Known<'_>) -> Option<Value> {
    let Value::Object(fields) = fields else { return Some(stored.clone()) };
    match stored {
        Value::Object(found) if fields.is_empty() => match found.is_empty() || !known.is_shared()? {
            true => Some(stored.clone()),
            false => Some(Value::Object(Map::new())),
        },
        _ if fields.is_empty() => Some(stored.clone()),
        Value::Object(stored) => {
            let owned = fields.iter().filter_map(|(element, below)| {
                let name = element.strip_prefix("f:")?;
                let known = known.below(element, Some(name));
                let value = extract(below, stored.get(name)?, &known);
                Some(value.map(|value| (name.to_owned(), value)))
            });
            owned.collect::<Option<Map<String, Value>>>().map(Value::Object)
        }
        Value::Array(stored) => {
            let owned = stored.iter().filter_map(|item| {
                fields.iter().find_map(|(element, below)| extract_item(element, below, item, known))
            });
            owned.collect::<Option<Vec<Value>>>().map(Value::Array)
        }
        scalar => Some(scalar.clone()),
    }
}

/// As [`extract`], of an item of a list, if it is the one that the element means.
fn extract_item(element: &str, below: &Value, item: &Value, known: &Known<'_>) -> Option<Option<Value>> {
    if let Some(keys) = element.strip_prefix("k:").and_then(keys) {
        let owned = is(item, &keys).then(|| extract(below, item, &known.below(element, None)))?;
        return Some(owned.map(|owned| with_keys(owned, keys)));
    }
    let value = element.strip_prefix("v:").and_then(|text| serde_json::from_str::<Value>(text).ok())?;
    (value == *item).then_some(Some(value))
}

fn with_keys(mut item: Value, keys: Map<String, Value>) -> Value {
    if let Value::Object(fields) = &mut item {
        for (name, value) in keys {
            fields.entry(name).or_insert(value);
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    use super::super::Kind;
    use super::super::owned::tests::{fields, stored, wanted};
    use super::super::owned::unchanged;
    use super::*;

    fn custom() -> Known<'static> {
        let mut resource = Deployment::api_resource();
        resource.group = "example.org".to_owned();
        Known::of(&resource)
    }

    #[test]
    fn extract_gives_what_was_applied() {
        let extracted = extract(&fields(), &stored(), &Known::of(&Deployment::api_resource())).unwrap();
        let mut expected = wanted();
        // The defaulted key of the port is part of its identity.
        expected["spec"]["template"]["spec"]["containers"][0]["ports"][0]["protocol"] = json!("TCP");
        assert_eq!(extracted, expected);
        assert!(unchanged(&fields(), &wanted(), &stored()));
    }

    #[test]
    fn what_was_applied_empty_is_not_what_others_put_into_it() {
        let template = json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"nodeSelector": {"c": "d"}, "containers": [{"name": "web", "env": [
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}});
        let stored = json!({"metadata": {"labels": {"foreign": "x"}}, "spec": {"template": template}});
        let fields = json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:template": {
            "f:metadata": {"f:labels": {}},
            "f:spec": {"f:nodeSelector": {}, "f:containers": {"k:{\"name\":\"web\"}": {
                "f:name": {}, "f:env": {"k:{\"name\":\"A\"}": {"f:valueFrom": {}}}}}}}}});
        let extracted = extract(&fields, &stored, &Known::of(&Deployment::api_resource())).unwrap();
        let container = json!({"name": "web", "env": [{"name": "A", "valueFrom": {}}]});
        let template = json!({"metadata": {"labels": {}}, "spec": {"nodeSelector": {"c": "d"}, "containers": [container]}});
        assert_eq!(extracted, json!({"metadata": {"labels": {}}, "spec": {"template": template}}));
    }

    #[test]
    fn of_a_kind_without_a_schema_the_field_sets_of_others_tell() {
        let stored =
            json!({"metadata": {"labels": {"foreign": "x"}}, "spec": {"parts": {"a": 1}, "none": {}}});
        let known = json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:none": {}}});
        let empty = json!({"metadata": {"labels": {}}, "spec": {"none": {}}});
        assert_eq!(extract(&known, &stored, &custom()), Some(empty));
        let fields = json!({"f:spec": {"f:parts": {}}});
        assert_eq!(extract(&fields, &stored, &custom()), None);
        let among = |others: &[Value]| {
            extract(&fields, &stored, &custom().with_others(others.iter().collect())).unwrap()["spec"].clone()
        };
        assert_eq!(among(&[]), json!({"parts": {"a": 1}}));
        assert_eq!(among(&[json!({"f:spec": {"f:parts": {}}})]), json!({"parts": {"a": 1}}));
        assert_eq!(among(&[json!({"f:spec": {"f:parts": {"f:a": {}}}})]), json!({"parts": {}}));
    }
}
