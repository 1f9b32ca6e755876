//! The objects that the families work on.

use serde_json::{Map, Value, json};

use crate::scenario::{Scenario, Step, Until};

/// A kind, where it lives and the least that it needs.
#[derive(Clone)]
pub struct Kind {
    pub api_version: String,
    pub kind: String,
    /// The collection, with `{{ns}}`.
    pub path: String,
    /// The fields of an object besides its head.
    pub base: Value,
    /// Whether strategic merge is understood.
    pub built_in: bool,
}

impl Kind {
    fn new(api_version: &str, kind: &str, plural: &str, base: Value) -> Kind {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        Kind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            path: format!("/{root}/{api_version}/namespaces/{{{{ns}}}}/{plural}"),
            base,
            built_in: !api_version.contains("example.com"),
        }
    }

    /// An object with these fields beside its head.
    pub fn object(&self, name: &str, fields: &Value) -> Value {
        let head = json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}});
        overlay(&head, fields)
    }

    /// The least object.
    pub fn least(&self, name: &str) -> Value {
        self.object(name, &self.base)
    }
}

pub fn config_map() -> Kind {
    Kind::new("v1", "ConfigMap", "configmaps", json!({"data": {"base": "1"}}))
}

pub fn deployment() -> Kind {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    Kind::new("apps/v1", "Deployment", "deployments", json!({"spec": spec}))
}

pub fn service() -> Kind {
    let spec = json!({"selector": {"a": "b"}, "ports": [{"name": "web", "port": 80}]});
    Kind::new("v1", "Service", "services", json!({"spec": spec}))
}

pub fn pod() -> Kind {
    Kind::new("v1", "Pod", "pods", json!({"spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}))
}

/// Our own kind with every sort of list and map; `group` keeps the files of transcripts apart.
pub fn widget(group: &str) -> Kind {
    let version = format!("{group}.example.com/v1");
    Kind::new(&version, "Widget", "widgets", json!({"spec": {"mode": "A"}}))
}

/// The schema of a widget.
pub fn widget_schema() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer", "format": "int32"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": text, "weight": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "mode": {"type": "string", "enum": ["A", "B", "C"], "default": "A"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port},
        "args": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text},
        "plain": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "sel": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "labels": {"type": "object", "additionalProperties": text},
        "nested": {"type": "object", "properties": {"a": {"type": "object", "properties": {
            "b": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
            "c": {"type": "integer", "default": 3}}}}},
        "size": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "maybe": {"type": "string", "nullable": true},
        "when": {"type": "string", "format": "date-time"}}});
    let status = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "phase": text,
        "conditions": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"], "items": {"type": "object", "required": ["type"],
            "properties": {"type": text, "status": text}}}}});
    json!({"type": "object", "properties": {"spec": spec, "status": status}})
}

/// The definition of that kind.
pub fn widget_definition(group: &str) -> Value {
    let group = format!("{group}.example.com");
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": widget_schema()},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [
                {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v2", false)]}})
}

/// Makes the definition and waits until it is served.
pub fn install(group: &str) -> Scenario {
    install_definition("widgets", widget_definition(group), group)
}

/// Makes a definition of a group's plural, which has the versions v1 and v2.
pub fn install_definition(plural: &str, definition: Value, group: &str) -> Scenario {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let established = Step {
        until: Some(Until {
            status: 200,
            pointer: Some("/status/conditions/1/status".to_owned()),
            equals: Some(json!("True")),
        }),
        ..Step::new(format!("GET {path}/{plural}.{group}.example.com"))
    };
    let served = |version: &str| Step {
        until: Some(Until { status: 200, pointer: None, equals: None }),
        ..Step::new(format!("GET /apis/{group}.example.com/{version}/namespaces/default/{plural}"))
    };
    let steps = vec![Step::with(format!("POST {path}"), definition), established, served("v1"), served("v2")];
    Scenario { name: format!("install-{group}"), steps }
}

/// `top` over `base`: maps join, lists of named elements join by name, anything else is replaced.
pub fn overlay(base: &Value, top: &Value) -> Value {
    match (base, top) {
        (Value::Object(left), Value::Object(right)) => {
            let mut joined: Map<String, Value> = left.clone();
            for (name, value) in right {
                let value = left.get(name).map_or_else(|| value.clone(), |below| overlay(below, value));
                joined.insert(name.clone(), value);
            }
            Value::Object(joined)
        }
        (Value::Array(left), Value::Array(right)) => {
            let mut joined = left.clone();
            for value in right {
                match joined
                    .iter_mut()
                    .find(|below| below["name"].is_string() && below["name"] == value["name"])
                {
                    Some(below) => *below = overlay(below, value),
                    None => joined.push(value.clone()),
                }
            }
            Value::Array(joined)
        }
        _ => top.clone(),
    }
}
