//! A custom kind with every keyword, list type and rule that a structural schema can have, in two versions that differ.

use serde_json::{Value, json};

use super::objects::{Kind, overlay};

/// The kind `Rich` of `group`, at one of its versions.
pub fn rich(group: &str, version: &str) -> Kind {
    let api_version = format!("{group}.example.com/{version}");
    Kind {
        path: format!("/apis/{api_version}/namespaces/{{{{ns}}}}/riches"),
        api_version,
        kind: "Rich".to_owned(),
        base: json!({"spec": {"mode": "A", "must": "x"}}),
        built_in: false,
    }
}

fn lists() -> Value {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer", "format": "int32", "minimum": 1},
        "protocol": {"type": "string", "default": "TCP"},
        "name": text, "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "weight": {"type": "integer", "default": 1}}});
    json!({
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text, "maxItems": 4},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port},
        "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "maxItems": 5, "items": {"type": "object", "required": ["id"], "properties": {
                "id": text, "on": {"type": "boolean"}, "sub": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "additionalProperties": text}},
                "x-kubernetes-validations": [{"rule": "self.id != 'forbidden'", "message": "id is forbidden"}]}},
        "args": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text, "minItems": 1},
        "plain": {"type": "array", "items": {"type": "object", "properties": {
            "x": {"type": "integer"}, "y": {"type": "string", "default": "why"}}}},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}})
}

fn maps() -> Value {
    let text = json!({"type": "string"});
    json!({
        "sel": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "labels": {"type": "object", "additionalProperties": text, "maxProperties": 3},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true,
            "pattern": "^[0-9]+(m|Gi)?$", "anyOf": [{"type": "integer"}, {"type": "string"}]}},
        "nested": {"type": "object", "properties": {"a": {"type": "object", "properties": {
            "b": {"type": "string", "maxLength": 5, "minLength": 1, "pattern": "^[a-z]*$"},
            "c": {"type": "integer", "default": 3}}}}},
        "deep": {"type": "object", "default": {}, "properties": {"level": {"type": "integer", "default": 2},
            "mayBe": {"type": "object", "nullable": true, "properties": {"q": text}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "integer"}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
        "either": {"type": "object", "properties": {"left": text, "right": text},
            "oneOf": [{"required": ["left"]}, {"required": ["right"]}]},
        "notBoth": {"type": "object", "properties": {"left": text, "right": text},
            "not": {"required": ["left", "right"]}, "minProperties": 1}})
}

fn scalars() -> Value {
    json!({
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "mode": {"type": "string", "enum": ["A", "B", "C"], "default": "A"},
        "must": {"type": "string"},
        "even": {"type": "integer", "multipleOf": 2},
        "above": {"type": "integer", "minimum": 5, "exclusiveMinimum": true},
        "below": {"type": "number", "maximum": 1.5, "exclusiveMaximum": true},
        "ratio": {"type": "number", "format": "double"},
        "small": {"type": "integer", "format": "int32"},
        "big": {"type": "integer", "format": "int64"},
        "flag": {"type": "boolean", "default": false},
        "size": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "maybeList": {"type": "array", "nullable": true, "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "v4": {"type": "string", "format": "ipv4"},
        "id": {"type": "string", "format": "uuid"},
        "span": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "fixed": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self == oldSelf", "message": "fixed is immutable"}]},
        "word": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [
            {"rule": "self.startsWith('w')", "messageExpression": "'must start with w, not ' + self",
                "reason": "FieldValueForbidden"}]}})
}

/// The schema; the second version has a list type and a field of its own and lacks another.
pub fn schema(version: &str) -> Value {
    let mut properties = overlay(&overlay(&scalars(), &maps()), &lists());
    if version == "v2" {
        properties["onlyNew"] = json!({"type": "string"});
        properties["args"]["x-kubernetes-list-type"] = json!("set");
        let fields = properties.as_object_mut().expect("made above");
        fields.remove("numbers");
    }
    let spec = json!({"type": "object", "required": ["must"], "properties": properties,
        "x-kubernetes-validations": [
            {"rule": "self.replicas <= 8 || self.mode != 'C'", "message": "mode C takes no more than 8",
                "fieldPath": ".replicas", "reason": "FieldValueInvalid"},
            {"rule": "oldSelf.mode != 'C' || self.mode == 'C'", "message": "mode C is for ever"}]});
    let text = json!({"type": "string"});
    let status = json!({"type": "object", "properties": {
        "replicas": {"type": "integer"}, "phase": {"type": "string", "enum": ["Ready", "Lost"]}, "selector": text,
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
            "items": {"type": "object", "required": ["type"], "properties": {"type": text, "status": text}}}}});
    json!({"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}})
}

/// The definition of that kind.
pub fn definition(group: &str) -> Value {
    let group = format!("{group}.example.com");
    let version = |name: &str, storage: bool| {
        // The common parts of all versions move to the top, where selectable fields need a common schema too.
        let selectable = if storage { ".spec.mode" } else { ".spec.must" };
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": schema(name)}, "selectableFields": [{"jsonPath": selectable}],
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("riches.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "riches", "kind": "Rich"},
            "versions": [version("v1", true), version("v2", false)]}})
}

/// (valid, wrong) parts of an object.
pub fn parts() -> (Vec<Value>, Vec<Value>) {
    let spec =
        |parts: Vec<Value>| -> Vec<Value> { parts.into_iter().map(|part| json!({"spec": part})).collect() };
    let (mut valid, mut wrong) = (spec(valid()), spec(wrong()));
    valid.extend([
        json!({"status": {"phase": "Ready"}}),
        json!({"status": {"replicas": 2, "selector": "a=b"}}),
        json!({"status": {"conditions": [{"type": "A", "status": "True"}]}}),
        json!({"status": {"conditions": [{"type": "B", "status": "True"}, {"type": "A", "status": "False"}]}}),
    ]);
    wrong.extend([
        json!({"status": {"phase": "Sold"}}),
        json!({"status": {"replicas": "2"}}),
        json!({"status": {"conditions": [{"status": "True"}]}}),
        json!({"spec": null}),
        json!({"spec": []}),
    ]);
    (valid, wrong)
}

fn valid() -> Vec<Value> {
    let mut all = vec![
        json!({"replicas": 3}),
        json!({"replicas": 8, "mode": "C"}),
        json!({"mode": "B"}),
        json!({"must": "y"}),
        json!({"even": 4, "above": 6, "below": 1.25, "ratio": 0.5}),
        json!({"ratio": 2, "small": 7, "big": 9007199254740993i64}),
        json!({"flag": true}),
        json!({"size": 5}),
        json!({"size": "5%"}),
        json!({"maybe": "x"}),
        json!({"maybe": null, "maybeList": null}),
        json!({"maybeList": ["x"]}),
        json!({"when": "2026-01-01T00:00:00Z", "day": "2026-01-01"}),
        json!({"mail": "a@b.cd", "v4": "1.2.3.4", "id": "0a1b2c3d-0000-4000-8000-00000000000a"}),
        json!({"span": "3h", "raw": "AQID"}),
        json!({"fixed": "one"}),
        json!({"word": "why"}),
        json!({"onlyNew": "n"}),
        json!({"numbers": [3, 1, 2]}),
    ];
    all.extend([
        json!({"tags": ["a", "b"]}),
        json!({"tags": ["c", "a"]}),
        json!({"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}),
        json!({"ports": [{"port": 2, "name": "two", "weight": 5, "tags": ["p"]}]}),
        json!({"ports": [{"port": 2, "protocol": "TCP", "tags": ["q", "p"]}, {"port": 1}]}),
        json!({"rules": [{"id": "r", "on": true}]}),
        json!({"rules": [{"id": "s"}, {"id": "r", "sub": {"k": "v"}}]}),
        json!({"args": ["x"]}),
        json!({"args": ["y", "x"]}),
        json!({"plain": [{"x": 1}]}),
        json!({"plain": [{"x": 1, "y": "z"}, {}]}),
        json!({"matrix": [[1, 2], [3]]}),
        json!({"sel": {"a": "1"}}),
        json!({"labels": {"a": "1", "b": "2"}}),
        json!({"labels": {}}),
        json!({"limits": {"cpu": 1, "mem": "2Gi"}}),
        json!({"nested": {"a": {"b": "x"}}}),
        json!({"nested": {"a": {"c": 9}}}),
        json!({"nested": {"a": {}}}),
        json!({"deep": {"mayBe": null}}),
        json!({"deep": {"level": 5, "mayBe": {"q": "x"}}}),
        json!({"free": {"deep": {"er": [1, {"x": null}]}, "known": 1}}),
        json!({"free": {"list": [{"name": "a"}], "n": 1.5}}),
        json!({"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e", "labels": {"l": "1"}}, "x": 1}}),
        json!({"either": {"left": "l"}}),
        json!({"either": {"right": "r"}}),
        json!({"notBoth": {"left": "l"}}),
    ]);
    all
}

fn wrong() -> Vec<Value> {
    let mut all = vec![
        json!({"mode": "Z"}),
        json!({"replicas": 11}),
        json!({"replicas": 9, "mode": "C"}),
        json!({"even": 3}),
        json!({"above": 5}),
        json!({"below": 1.5}),
        json!({"small": 3000000000i64}),
        json!({"ratio": "x"}),
        json!({"flag": "true"}),
        json!({"size": 1.5}),
        json!({"size": true}),
        json!({"must": null}),
        json!({"maybeList": [null]}),
        json!({"when": "never"}),
        json!({"day": "2026-13-01"}),
        json!({"mail": "nobody"}),
        json!({"v4": "1.2.3"}),
        json!({"id": "x"}),
        json!({"span": "soon"}),
        json!({"raw": "*"}),
        json!({"fixed": "two"}),
        json!({"word": "no"}),
        json!({"word": "waytoolongforthis"}),
    ];
    all.extend([
        json!({"tags": ["a", "a"]}),
        json!({"tags": ["a", "b", "c", "d", "e"]}),
        json!({"tags": "a"}),
        json!({"tags": [1]}),
        json!({"ports": [{"name": "nokey"}]}),
        json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
        json!({"ports": [{"port": 0}]}),
        json!({"rules": [{"id": "forbidden"}]}),
        json!({"rules": [{"id": "r"}, {"id": "r"}]}),
        json!({"args": []}),
        json!({"matrix": [1]}),
        json!({"labels": {"a": 1}}),
        json!({"labels": {"a": "1", "b": "1", "c": "1", "d": "1"}}),
        json!({"limits": {"cpu": "x"}}),
        json!({"nested": {"a": {"b": "UPPER"}}}),
        json!({"nested": {"a": {"b": ""}}}),
        json!({"nested": "x"}),
        json!({"nested": {"a": {"z": 1}}}),
        json!({"unknown": {"x": 1}}),
        json!({"free": {"known": "x"}}),
        json!({"embedded": {"kind": "Pod"}}),
        json!({"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"l": 1}}}}),
        json!({"either": {"left": "l", "right": "r"}}),
        json!({"either": {}}),
        json!({"notBoth": {"left": "l", "right": "r"}}),
        json!({"notBoth": {}}),
    ]);
    all
}
