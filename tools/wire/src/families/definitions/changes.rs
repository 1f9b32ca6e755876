//! Definitions that change, and what that does to objects.

use serde_json::{Value, json};

use super::{CRDS, definition, object, overlay};
use crate::scenario::{Scenario, Step, Until};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario { name: "definition-life".to_owned(), steps: life() },
        Scenario { name: "definition-ratcheting".to_owned(), steps: ratcheting() },
        Scenario { name: "definition-costs".to_owned(), steps: costs() },
    ]
}

/// Waits until objects are served. (The definition itself has two managers in the order of the second they wrote in.)
fn ready(path: &str) -> Step {
    Step {
        until: Some(Until { status: 200, pointer: None, equals: None }),
        ..Step::new(format!("GET {path}"))
    }
}

/// A definition that is changed: what may change, what may not.
fn life() -> Vec<Step> {
    let name = "things.life.wire.example.com";
    let schema = object(json!({"spec": object(json!({"a": {"type": "string"}}))}));
    let made = definition(name, json!({"schema": {"openAPIV3Schema": schema}}));
    let at = format!("{CRDS}/{name}");
    let patch = |fields: Value| Step::patch(&at, "merge", fields);
    vec![
        Step::with(format!("POST {CRDS}"), made.clone()),
        ready("/apis/life.wire.example.com/v1/things"),
        Step::with(format!("POST {CRDS}"), made),
        patch(json!({"spec": {"scope": "Cluster"}})),
        patch(json!({"spec": {"group": "other.example.com"}})),
        patch(json!({"spec": {"names": {"kind": "Other"}}})),
        patch(json!({"spec": {"names": {"plural": "others"}}})),
        Step::patch(format!("{at}/status"), "merge", json!({"status": {"storedVersions": []}})),
    ]
}

/// Objects stored before a schema became stricter may stay invalid, where a write does not touch them.
fn ratcheting() -> Vec<Step> {
    let name = "things.ratchet.wire.example.com";
    let schema = |spec: Value| json!({"type": "object", "properties": {"spec": object(spec)}});
    let loose = json!({"a": {"type": "string"}, "n": {"type": "integer"}, "m": {"type": "object",
        "additionalProperties": {"type": "string"}}, "l": {"type": "array", "items": {"type": "string"}},
        "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items":
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "v": {"type": "string"}}}}});
    let strict = json!({"a": {"type": "string", "maxLength": 2}, "n": {"type": "integer", "maximum": 3}, "m": {"type": "object",
        "additionalProperties": {"type": "string", "enum": ["ok"]}}, "l": {"type": "array", "items": {"type": "string", "pattern": "^x"}},
        "k": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"], "items":
            {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "v": {"type": "string", "minLength": 2,
                "x-kubernetes-validations": [{"rule": "self.startsWith('v')"}]}}}},
        "fresh": {"type": "string", "default": "given"}});
    let collection = "/apis/ratchet.wire.example.com/v1/namespaces/{{ns}}/things";
    let head =
        json!({"apiVersion": "ratchet.wire.example.com/v1", "kind": "Thing", "metadata": {"name": "o"}});
    let object = overlay(
        &head,
        &json!({"spec": {"a": "long", "n": 5, "m": {"x": "bad", "y": "bad"}, "l": ["a", "b"],
        "k": [{"id": "1", "v": "u"}, {"id": "2", "v": "w"}]}}),
    );
    let patch = |fields: Value| Step::patch(format!("{collection}/o"), "merge", json!({"spec": fields}));
    let stricter = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema(strict)}]);
    let defaulted = Step {
        until: Some(Until {
            status: 200,
            pointer: Some("/spec/fresh".to_owned()),
            equals: Some(json!("given")),
        }),
        ..Step::new(format!("GET {collection}/o"))
    };
    vec![
        Step::with(
            format!("POST {CRDS}"),
            definition(name, json!({"schema": {"openAPIV3Schema": schema(loose)}})),
        ),
        ready("/apis/ratchet.wire.example.com/v1/things"),
        Step::with(format!("POST {collection}"), object),
        Step::patch(format!("{CRDS}/{name}"), "json-patch", stricter),
        defaulted,
        patch(json!({"fresh": "changed"})),
        patch(json!({"a": "longer"})),
        patch(json!({"n": 6})),
        patch(json!({"n": 2})),
        patch(json!({"m": {"z": "ok"}})),
        patch(json!({"m": {"z": "no"}})),
        patch(json!({"l": ["a", "b", "xc"]})),
        patch(json!({"l": ["b", "a"]})),
        patch(json!({"k": [{"id": "2", "v": "w"}, {"id": "1", "v": "u"}, {"id": "3", "v": "vv"}]})),
        patch(json!({"k": [{"id": "1", "v": "z"}]})),
        Step::apply(format!("{collection}/o"), "m", true, overlay(&head, &json!({"spec": {"a": "x"}}))),
        Step::with(
            format!("POST {collection}"),
            overlay(&head, &json!({"metadata": {"name": "p"}, "spec": {"a": "long"}})),
        ),
    ]
}

/// A rule that may be written, and costs too much when it meets a long list: no further rule is run.
fn costs() -> Vec<Step> {
    let name = "things.costs.wire.example.com";
    let texts = json!({"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 1}});
    let mut spec = object(json!({"l": texts}));
    spec["x-kubernetes-validations"] = json!([
        {"rule": "self.l.all(x, self.l.all(y, x != y || true))"},
        {"rule": "self.l.size() < 3", "message": "too many"}]);
    let schema = object(json!({"spec": spec}));
    let collection = "/apis/costs.wire.example.com/v1/namespaces/{{ns}}/things";
    let post = |name: &str, count: usize| {
        let object = json!({"apiVersion": "costs.wire.example.com/v1", "kind": "Thing",
            "metadata": {"name": name}, "spec": {"l": vec!["a"; count]}});
        Step::with(format!("POST {collection}"), object)
    };
    vec![
        Step::with(format!("POST {CRDS}"), definition(name, json!({"schema": {"openAPIV3Schema": schema}}))),
        ready("/apis/costs.wire.example.com/v1/things"),
        post("few", 2),
        post("some", 20),
        post("many", 900),
    ]
}
