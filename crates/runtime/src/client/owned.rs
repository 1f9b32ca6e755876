//! Field sets against values, without a schema: is what somebody owns equal to what would be applied?
//!
//! `fieldsV1` names fields by `f:`, list items by `k:` (their keys) or `v:` (their value). That is enough to walk
//! a wanted configuration and a stored object side by side. Whatever is not clearly equal counts as different:
//! then the apply is sent, and the server decides.

use serde_json::{Map, Value};

/// Whether applying `wanted` as the owner of exactly `fields` would leave `stored` and the ownership unchanged.
pub(crate) fn unchanged(fields: &Value, wanted: &Value, stored: &Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    if fields.keys().all(|name| name == ".") {
        // A scalar, something atomic, or an empty map or list. Whether others may have something in one that is empty only
        // the schema says.
        return wanted == stored;
    }
    match wanted {
        Value::Object(wanted) => object_unchanged(fields, wanted, stored),
        Value::Array(wanted) => list_unchanged(fields, wanted, stored),
        _ => false,
    }
}

fn object_unchanged(fields: &Map<String, Value>, wanted: &Map<String, Value>, stored: &Value) -> bool {
    let mut owned = fields.iter().filter(|(name, _)| *name != ".");
    if owned.clone().count() != wanted.len() {
        return false;
    }
    owned.all(|(name, below)| {
        let Some(name) = name.strip_prefix("f:") else { return false };
        match (wanted.get(name), stored.get(name)) {
            // A null is owned and clears what is there, as far as the schema allows for it.
            (Some(wanted), Some(stored)) => !wanted.is_null() && unchanged(below, wanted, stored),
            _ => false,
        }
    })
}

fn list_unchanged(fields: &Map<String, Value>, wanted: &[Value], stored: &Value) -> bool {
    let Value::Array(stored) = stored else { return false };
    let owned: Vec<(&String, &Value)> = fields.iter().filter(|(name, _)| *name != ".").collect();
    if owned.len() != wanted.len() {
        return false;
    }
    // The place of each wanted item.
    let mut places = vec![None; wanted.len()];
    let mut unused = |fits: &dyn Fn(&Value) -> bool, at: usize| {
        let place = (0..wanted.len()).find(|place| places[*place].is_none() && fits(&wanted[*place]))?;
        places[place] = Some(at);
        Some(&wanted[place])
    };
    let equal = owned.into_iter().all(|(name, below)| {
        if let Some(value) = name.strip_prefix("v:") {
            let Ok(value) = serde_json::from_str::<Value>(value) else { return false };
            let at = stored.iter().position(|item| *item == value);
            return at.is_some_and(|at| unused(&|item| *item == value, at).is_some());
        }
        let Some(keys) = name.strip_prefix("k:").and_then(keys) else { return false };
        let at = stored.iter().position(|item| is(item, &keys));
        at.is_some_and(|at| {
            unused(&|item| may_be(item, &keys), at).is_some_and(|item| unchanged(below, item, &stored[at]))
        })
    });
    // The server puts them in the order in which they are applied.
    equal && places.is_sorted()
}

pub(super) fn keys(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

pub(super) fn is(item: &Value, keys: &Map<String, Value>) -> bool {
    keys.iter().all(|(name, value)| item.get(name) == Some(value))
}

/// A key that the configuration leaves out has its default, which only the server knows.
fn may_be(item: &Value, keys: &Map<String, Value>) -> bool {
    item.is_object() && keys.iter().all(|(name, value)| item.get(name).is_none_or(|found| found == value))
}

/// Whether `stored` has all that `fields` names: a transform may have taken some of it before it was cached.
pub(crate) fn is_whole(fields: &Value, stored: &Value) -> bool {
    let Value::Object(fields) = fields else { return true };
    let items = || stored.as_array().into_iter().flatten();
    fields.iter().filter(|(name, _)| *name != ".").all(|(name, below)| {
        if let Some(name) = name.strip_prefix("f:") {
            return stored.get(name).is_some_and(|stored| is_whole(below, stored));
        }
        if let Some(keys) = name.strip_prefix("k:").and_then(keys) {
            return items().any(|item| is(item, &keys) && is_whole(below, item));
        }
        let value = name.strip_prefix("v:").and_then(|text| serde_json::from_str::<Value>(text).ok());
        value.is_some_and(|value| items().any(|item| *item == value))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    pub fn stored() -> Value {
        json!({
            "metadata": {"name": "web", "labels": {"app": "web", "foreign": "x"}},
            "spec": {
                "replicas": 3, "paused": false,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [
                    {"name": "side", "image": "s"},
                    {"name": "web", "image": "nginx", "pullPolicy": "Always",
                     "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}},
                "finalizers": ["a", "b"]}})
    }

    pub fn fields() -> Value {
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:replicas": {}, "f:selector": {},
                "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}}},
                "f:finalizers": {"v:\"a\"": {}}}})
    }

    pub fn wanted() -> Value {
        json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [
                    {"name": "web", "image": "nginx", "ports": [{"containerPort": 80}]}]}},
                "finalizers": ["a"]}})
    }

    #[test]
    fn what_is_owned_and_equal_is_unchanged() {
        assert!(unchanged(&fields(), &wanted(), &stored()));
    }

    #[test]
    fn every_single_difference_is_seen() {
        let mutations: [fn(&mut Value); 11] = [
            |v| v["spec"]["replicas"] = json!(4),
            |v| v["metadata"]["labels"]["more"] = json!("x"),
            |v| drop(v["spec"].as_object_mut().unwrap().remove("replicas")),
            |v| v["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other"),
            |v| v["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = json!(81),
            |v| v["spec"]["finalizers"] = json!(["a", "c"]),
            |v| v["spec"]["selector"]["matchLabels"]["x"] = json!("y"),
            |v| v["spec"]["paused"] = json!(false),
            |v| v["spec"]["selector"] = json!({}),
            |v| v["spec"]["paused"] = json!(null),
            |v| v["spec"]["replicas"] = json!(null),
        ];
        for (number, mutate) in mutations.iter().enumerate() {
            let mut wanted = wanted();
            mutate(&mut wanted);
            assert!(!unchanged(&fields(), &wanted, &stored()), "mutation {number}");
        }
    }

    #[test]
    fn the_order_of_items_is_seen_and_that_of_others_between_them_is_not() {
        let container = |name: &str| json!({"name": name});
        let field = |name: &str| (format!("k:{{\"name\":\"{name}\"}}"), json!({".": {}, "f:name": {}}));
        let keyed = Value::Object([field("a"), field("b")].into_iter().collect());
        let set = json!({"v:\"a\"": {}, "v:\"b\"": {}});
        for (fields, item) in
            [(keyed, &container as &dyn Fn(&str) -> Value), (set, &|name: &str| Value::from(name))]
        {
            let list = |names: &[&str]| Value::Array(names.iter().map(|name| item(name)).collect());
            let stored = list(&["a", "foreign", "b"]);
            assert!(unchanged(&fields, &list(&["a", "b"]), &stored));
            assert!(!unchanged(&fields, &list(&["b", "a"]), &stored));
        }
    }

    #[test]
    fn what_is_atomic_and_to_be_emptied_is_seen() {
        let fields = json!({"f:spec": {"f:ingress": {}, "f:podSelector": {}}});
        let stored = json!({"spec": {"ingress": [{}], "podSelector": {"matchLabels": {"a": "b"}}}});
        assert!(unchanged(&fields, &stored, &stored));
        for emptied in ["ingress", "podSelector"] {
            let mut wanted = stored.clone();
            wanted["spec"][emptied] = if emptied == "ingress" { json!([]) } else { json!({}) };
            assert!(!unchanged(&fields, &wanted, &stored), "{emptied}");
        }
    }

    #[test]
    fn a_field_that_a_foreign_manager_took_or_changed_is_seen() {
        let mut taken = fields();
        taken["f:spec"].as_object_mut().unwrap().remove("f:replicas");
        assert!(!unchanged(&taken, &wanted(), &stored()));
        let mut changed = stored();
        changed["spec"]["template"]["spec"]["containers"][1]["image"] = json!("evil");
        assert!(!unchanged(&fields(), &wanted(), &changed));
    }

    #[test]
    fn what_a_transform_took_is_missed() {
        assert!(is_whole(&fields(), &stored()));
        let losses: [fn(&mut Value); 4] = [
            |v| drop(v["spec"].as_object_mut().unwrap().remove("selector")),
            |v| drop(v["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap().remove(1)),
            |v| drop(v["spec"]["finalizers"].as_array_mut().unwrap().remove(0)),
            |v| drop(v["metadata"].as_object_mut().unwrap().remove("labels")),
        ];
        for (number, lose) in losses.iter().enumerate() {
            let mut stored = stored();
            lose(&mut stored);
            assert!(!is_whole(&fields(), &stored), "loss {number}");
        }
    }
}
