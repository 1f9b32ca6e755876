//! Lives from the schema of a custom resource: every property there and back.

use serde_json::{Map, Value, json};

use crate::life::Step;

/// The most steps that one schema makes.
const STEPS: usize = 60;
/// The deepest property that is changed.
const DEPTH: usize = 5;
/// More CPU than any node has: a pod that asks for it is never scheduled.
const TOO_MUCH: &str = "100000";

/// Returns objects that differ from a sample in one property of the spec each. Feature toggles come first: other
/// properties often depend on them.
pub fn variants(definitions: &[Value], sample: &Value) -> Vec<Value> {
    let Some(schema) = schema(definitions, sample) else { return Vec::new() };
    let mut found = Vec::new();
    walk(&schema, sample.get("spec"), &mut Place::default(), &mut found);
    found.sort_by_key(|change| !change.toggles);
    let with = |change: Change| {
        let mut object = sample.clone();
        if let Some(toggle) = &change.toggle {
            put(&mut object["spec"], toggle, true.into());
        }
        put(&mut object["spec"], &change.path, change.value);
        object
    };
    let mut variants: Vec<Value> = found.into_iter().map(with).filter(|object| object != sample).collect();
    variants.truncate(STEPS);
    variants
}

/// Returns the life of a sample: made, each variant there and back, deleted, made again, and deleted.
pub fn life(sample: &Value, variants: Vec<Value>) -> Vec<Step> {
    let name = sample["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut steps = vec![Step::Apply(sample.clone())];
    for variant in variants {
        steps.extend([Step::Apply(variant), Step::Apply(sample.clone())]);
    }
    let delete = Step::Delete { name };
    steps.extend([delete.clone(), Step::Apply(sample.clone()), delete]);
    steps
}

/// Returns the schema of the spec of an object, from the definitions.
fn schema(definitions: &[Value], sample: &Value) -> Option<Value> {
    let (group, version) = sample["apiVersion"].as_str()?.split_once('/')?;
    let of_kind = |definition: &&Value| {
        definition["kind"] == "CustomResourceDefinition"
            && definition["spec"]["group"] == group
            && definition["spec"]["names"]["kind"] == sample["kind"]
    };
    let definition = definitions.iter().find(of_kind)?;
    let versions = definition["spec"]["versions"].as_array()?;
    let version = versions.iter().find(|known| known["name"] == version)?;
    version.pointer("/schema/openAPIV3Schema/properties/spec").cloned()
}

/// A new value of a property.
struct Change {
    path: Vec<String>,
    value: Value,
    /// Whether the property switches a feature on or off.
    toggles: bool,
    /// The property that switches on the feature that this one belongs to.
    toggle: Option<Vec<String>>,
}

/// A place in the spec.
#[derive(Default)]
struct Place {
    path: Vec<String>,
    /// The nearest property beside the path, or above it, that switches a feature on.
    toggle: Option<Vec<String>>,
}

fn walk(schema: &Value, present: Option<&Value>, place: &mut Place, found: &mut Vec<Change>) {
    let properties = schema["properties"].as_object();
    let change = |value: Value, toggles: bool, place: &Place| {
        let toggle = place.toggle.clone().filter(|toggle| *toggle != place.path);
        Change { path: place.path.clone(), value, toggles, toggle }
    };
    if let Some(value) = of_core_type(properties) {
        found.push(change(value, false, place));
        return;
    }
    if let Some(properties) = properties.filter(|_| place.path.len() < DEPTH) {
        let above = place.toggle.clone();
        if let Some(toggle) = properties.iter().find(|(name, property)| is_toggle(name, property)) {
            place.toggle = Some([place.path.as_slice(), std::slice::from_ref(toggle.0)].concat());
        }
        for (name, property) in properties {
            place.path.push(name.clone());
            walk(property, present.and_then(|value| value.get(name)), place, found);
            place.path.pop();
        }
        place.toggle = above;
        return;
    }
    let name = place.path.last().cloned().unwrap_or_default();
    if let Some(value) = other(schema, present, &name) {
        found.push(change(value, schema["type"] == "boolean", place));
    }
    found.extend(further(schema, present).map(|value| change(value, false, place)));
}

/// Returns whether a property switches a feature on: `enabled`, `enableMetrics`.
fn is_toggle(name: &str, schema: &Value) -> bool {
    schema["type"] == "boolean" && name.to_lowercase().contains("enable")
}

/// Returns a second value: a count goes down to the least that the schema allows, and a list loses its last item.
fn further(schema: &Value, present: Option<&Value>) -> Option<Value> {
    match schema["type"].as_str()? {
        "integer" => {
            let present = present.or_else(|| schema.get("default")).and_then(Value::as_i64)?;
            let least = schema["minimum"].as_i64().unwrap_or(0);
            // A smaller one may be the first new value already.
            let first = integer(schema, Some(present));
            Some(json!(least)).filter(|value| least < present && first.as_ref() != Some(value))
        }
        "array" => {
            let mut items = present.and_then(Value::as_array)?.clone();
            items.pop().map(|_| items.into())
        }
        _ => None,
    }
}

/// Recognises the parts of a pod by their structure, and returns a value that no node can satisfy: the next step mends
/// it.
fn of_core_type(properties: Option<&Map<String, Value>>) -> Option<Value> {
    let properties = properties?;
    let has = |names: &[&str]| names.iter().all(|name| properties.contains_key(*name));
    if has(&["limits", "requests"]) {
        return Some(json!({"requests": {"cpu": TOO_MUCH}, "limits": {"cpu": TOO_MUCH}}));
    }
    if has(&["runAsUser", "runAsNonRoot"]) {
        // No image of a simulated pod is the root's.
        return Some(json!({"runAsNonRoot": true}));
    }
    if has(&["nodeAffinity", "podAffinity", "podAntiAffinity"]) {
        let term = json!({"matchExpressions": [{"key": "prove.setpoint.dev/none", "operator": "Exists"}]});
        let required = json!({"nodeSelectorTerms": [term]});
        return Some(json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}));
    }
    None
}

/// Returns a value that a schema allows, as far as it tells, and that is not the present one.
fn other(schema: &Value, present: Option<&Value>, name: &str) -> Option<Value> {
    let present = present.or_else(|| schema.get("default"));
    if let Some(allowed) = schema["enum"].as_array() {
        return allowed.iter().find(|value| Some(*value) != present).cloned();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return Some(json!(present.and_then(Value::as_i64).unwrap_or(0) + 1));
    }
    match schema["type"].as_str()? {
        "boolean" => Some(json!(!present.and_then(Value::as_bool).unwrap_or(false))),
        "integer" => integer(schema, present.and_then(Value::as_i64)),
        "number" => Some(json!(present.and_then(Value::as_f64).unwrap_or(0.0) + 1.0)),
        "string" => Some(json!(text(present.and_then(Value::as_str), name))),
        "array" if schema["items"]["type"] == "string" => {
            let mut items = present.and_then(Value::as_array).cloned().unwrap_or_default();
            items.push("prove".into());
            Some(items.into())
        }
        "object" if schema["additionalProperties"]["type"] == "string" => {
            let mut fields = present.and_then(Value::as_object).cloned().unwrap_or_default();
            let (key, value) =
                if name == "nodeSelector" { ("prove.setpoint.dev/none", "") } else { ("prove", "1") };
            fields.insert(key.to_owned(), value.into());
            Some(fields.into())
        }
        _ => None,
    }
}

/// Returns the next larger integer, or the next smaller one if the schema has a maximum.
fn integer(schema: &Value, present: Option<i64>) -> Option<Value> {
    let least = schema["minimum"].as_i64().unwrap_or(i64::MIN);
    let most = schema["maximum"].as_i64().unwrap_or(i64::MAX);
    let present = present.unwrap_or(0);
    let fits = |value: &i64| (least..=most).contains(value);
    [present.saturating_add(1), present.saturating_sub(1), least]
        .into_iter()
        .find(fits)
        .map(|value| json!(value))
}

/// Returns another text of the same form: a larger quantity, another image, or a longer text.
fn text(present: Option<&str>, name: &str) -> String {
    let Some(present) = present.filter(|text| !text.is_empty()) else {
        return if name.to_lowercase().contains("image") { "prove:1".to_owned() } else { "prove".to_owned() };
    };
    let digits = present.chars().take_while(char::is_ascii_digit).count();
    if let (Ok(number), true) = (present[..digits].parse::<u64>(), present.len() - digits <= 2) {
        return format!("{}{}", number.saturating_add(1), &present[digits..]);
    }
    match present.rsplit_once(':') {
        Some((image, _)) if name.to_lowercase().contains("image") => format!("{image}:prove"),
        _ => format!("{present}-prove"),
    }
}

fn put(object: &mut Value, path: &[String], value: Value) {
    match path {
        [] => *object = value,
        [first, rest @ ..] => {
            if !object.is_object() {
                *object = json!({});
            }
            put(&mut object[first.as_str()], rest, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Value {
        let spec = json!({"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 0, "maximum": 3},
            "size": {"type": "string"},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "image": {"type": "string"},
            "backup": {"type": "object", "properties": {
                "enabled": {"type": "boolean"}, "hours": {"type": "integer"},
            }},
            "parts": {"type": "array", "items": {"type": "object"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "resources": {"type": "object", "properties": {
                "limits": {"type": "object"}, "requests": {"type": "object"},
            }},
        }});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "example.org", "names": {"kind": "Store"},
                "versions": [{"name": "v1", "schema": schema}],
            },
        })
    }

    fn sample() -> Value {
        json!({
            "apiVersion": "example.org/v1", "kind": "Store", "metadata": {"name": "s"},
            "spec": {"replicas": 3, "size": "10Gi", "mode": "a", "image": "store:1", "parts": [{"a": 1}, {"b": 2}]},
        })
    }

    #[test]
    fn every_property_changes_once_and_toggles_come_first() {
        let variants = variants(&[definition()], &sample());
        let spec = |index: usize| &variants[index]["spec"];
        assert_eq!(spec(0)["backup"]["enabled"], true, "{variants:?}");
        assert_eq!(variants.len(), 10);
        let all: Vec<&Value> = variants.iter().map(|variant| &variant["spec"]).collect();
        assert!(all.iter().any(|spec| spec["replicas"] == 2 && spec["size"] == "10Gi"), "{all:?}");
        assert!(all.iter().any(|spec| spec["replicas"] == 0), "{all:?}");
        assert!(all.iter().any(|spec| spec["parts"] == json!([{"a": 1}])), "{all:?}");
        let backup = json!({"enabled": true, "hours": 1});
        assert!(
            all.iter().any(|spec| spec["backup"] == backup),
            "a property comes with its feature: {all:?}"
        );
        assert!(all.iter().any(|spec| spec["size"] == "11Gi"), "{all:?}");
        assert!(all.iter().any(|spec| spec["mode"] == "b"), "{all:?}");
        assert!(all.iter().any(|spec| spec["image"] == "store:prove"), "{all:?}");
        assert!(all.iter().any(|spec| spec["labels"]["prove"] == "1"), "{all:?}");
        assert!(all.iter().any(|spec| spec["resources"]["requests"]["cpu"] == TOO_MUCH), "{all:?}");
    }

    #[test]
    fn a_life_goes_there_and_back_and_away_twice() {
        let variants = variants(&[definition()], &sample());
        let life = life(&sample(), variants);
        assert_eq!(life.len(), 1 + 10 * 2 + 3);
        assert_eq!(life[2], Step::Apply(sample()));
        assert!(matches!(life.last(), Some(Step::Delete { .. })));
        assert_eq!(super::variants(&[], &sample()), Vec::<Value>::new());
    }
}
