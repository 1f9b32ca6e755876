//! CustomResourceDefinitions: every structural rule, every refusal of a definition, and what changes of a schema do.

mod changes;

use serde_json::{Value, json};

use super::objects::overlay;
use crate::scenario::{Scenario, Step};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (name, schemas) in schemas() {
        let post =
            |schema: &Value| Step::with(format!("POST {CRDS}?dryRun=All"), with_schema(schema.clone()));
        all.push(Scenario { name: format!("schema-{name}"), steps: schemas.iter().map(post).collect() });
    }
    all.push(Scenario { name: "definition-refusals".to_owned(), steps: refusals() });
    all.push(Scenario { name: "definition-rules".to_owned(), steps: rules() });
    all.extend(changes::scenarios());
    all
}

/// A definition with one version.
fn with_schema(schema: Value) -> Value {
    definition("things.wire.example.com", json!({"schema": {"openAPIV3Schema": schema}}))
}

fn definition(name: &str, version: Value) -> Value {
    let group = name.split_once('.').map_or("", |(_, group)| group);
    let version = overlay(&json!({"name": "v1", "served": true, "storage": true}), &version);
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": "things", "kind": "Thing"}}})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Schemas that are refused (and a few that are not), by the rule that they break.
fn schemas() -> Vec<(&'static str, Vec<Value>)> {
    vec![
        ("types", types()),
        ("nesting", nesting()),
        ("forbidden", forbidden()),
        ("lists", lists()),
        ("maps", maps()),
        ("metadata", metadata()),
        ("defaults", defaults()),
        ("keywords", keywords()),
    ]
}

fn types() -> Vec<Value> {
    vec![
        json!({}),
        json!({"type": "string"}),
        json!({"type": "array", "items": {"type": "string"}}),
        object(json!({"a": {}})),
        object(json!({"a": {"type": "nonsense"}})),
        object(json!({"a": {"type": "null"}})),
        object(json!({"a": {"type": "array"}})),
        object(json!({"a": {"type": "array", "items": {}}})),
        object(json!({"a": {"type": "array", "items": [{"type": "string"}]}})),
        object(json!({"a": {"type": "object", "additionalProperties": {}}})),
        object(json!({"a": {"type": "object", "additionalProperties": true}})),
        object(json!({"a": {"type": "object", "additionalProperties": false}})),
        object(
            json!({"a": {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"b": {"type": "string"}}}}),
        ),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "nullable": true}),
        object(json!({"a": {"x-kubernetes-int-or-string": true, "type": "string"}})),
        object(
            json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
        ),
        object(
            json!({"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]}}),
        ),
        object(
            json!({"a": {"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}}),
        ),
        object(json!({"a": {"x-kubernetes-int-or-string": true, "x-kubernetes-embedded-resource": true}})),
        object(json!({"a": {"x-kubernetes-preserve-unknown-fields": true}})),
        object(json!({"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}})),
        object(json!({"a": {"type": "string", "x-kubernetes-preserve-unknown-fields": true}})),
        object(json!({"a": {"x-kubernetes-embedded-resource": true}})),
        object(json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true}})),
        object(json!({"a": {"type": "string", "x-kubernetes-embedded-resource": true}})),
        object(
            json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true, "additionalProperties": {"type": "string"}}}),
        ),
        object(
            json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}}),
        ),
    ]
}

fn nesting() -> Vec<Value> {
    let keywords = ["allOf", "anyOf", "oneOf"];
    let below = |inner: Value| {
        keywords.iter().map(move |keyword| {
            object(json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, *keyword: [inner.clone()]}}))
        })
    };
    let mut all = Vec::new();
    for inner in [
        json!({"type": "object"}),
        json!({"properties": {"c": {"minLength": 1}}}),
        json!({"properties": {"b": {"type": "string"}}}),
        json!({"properties": {"b": {"minLength": 1}}, "required": ["b"]}),
        json!({"default": {}}),
        json!({"title": "t", "description": "d", "nullable": true}),
        json!({"additionalProperties": {"type": "string"}}),
        json!({"x-kubernetes-preserve-unknown-fields": true}),
        json!({"x-kubernetes-validations": [{"rule": "true"}]}),
        json!({"items": {"minLength": 1}}),
        json!({"properties": {"metadata": {"required": ["name"]}}}),
    ] {
        all.extend(below(inner));
    }
    all.push(object(json!({"a": {"type": "string", "not": {"type": "string"}}})));
    all.push(object(json!({"a": {"type": "string", "not": {"enum": ["x"]}}})));
    all.push(object(json!({"a": {"type": "object", "not": {"properties": {"zz": {"enum": ["x"]}}}}})));
    all
}

fn forbidden() -> Vec<Value> {
    let a = |fields: Value| object(json!({"a": overlay(&json!({"type": "object"}), &fields)}));
    vec![
        a(json!({"$ref": "#/definitions/x"})),
        a(json!({"id": "x"})),
        a(json!({"$schema": "http://json-schema.org/schema#"})),
        a(json!({"definitions": {"x": {"type": "string"}}})),
        a(json!({"dependencies": {"x": ["y"]}})),
        a(json!({"patternProperties": {"x": {"type": "string"}}})),
        a(json!({"uniqueItems": true})),
        a(json!({"additionalItems": {"type": "string"}})),
        a(json!({"externalDocs": {"url": "http://e.com"}, "example": {"a": 1}})),
        a(json!({"unknownKeyword": 1})),
        json!({"type": "object", "title": "t", "description": "d", "format": "f"}),
        json!({"type": "object", "maxProperties": 3}),
        json!({"type": "object", "required": ["spec"], "minProperties": 1}),
    ]
}

fn lists() -> Vec<Value> {
    let a = |fields: Value| {
        object(json!({"a": overlay(&json!({"type": "array", "items": {"type": "string"}}), &fields)}))
    };
    let map = |fields: Value| {
        let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}});
        let base = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items});
        object(json!({"a": overlay(&base, &fields)}))
    };
    vec![
        a(json!({"x-kubernetes-list-type": "nonsense"})),
        a(json!({"x-kubernetes-list-type": "set"})),
        a(json!({"x-kubernetes-list-type": "set", "items": {"nullable": true}})),
        a(json!({"x-kubernetes-list-type": "set", "items": {"type": "object"}})),
        a(
            json!({"x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}}),
        ),
        a(json!({"x-kubernetes-list-type": "set", "items": {"type": "array", "items": {"type": "string"}}})),
        a(
            json!({"x-kubernetes-list-type": "set", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}),
        ),
        a(json!({"x-kubernetes-list-type": "map"})),
        a(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]})),
        a(json!({"x-kubernetes-list-map-keys": ["k"]})),
        object(json!({"a": {"type": "string", "x-kubernetes-list-type": "set"}})),
        object(
            json!({"a": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}),
        ),
        map(json!({})),
        map(json!({"x-kubernetes-list-map-keys": []})),
        map(json!({"x-kubernetes-list-map-keys": ["missing"]})),
        map(json!({"x-kubernetes-list-map-keys": ["k", "k"]})),
        map(json!({"items": {"nullable": true}})),
        map(json!({"items": {"required": []}})),
        map(json!({"items": {"properties": {"k": {"nullable": true}}}})),
        map(json!({"items": {"properties": {"k": {"type": "object"}}}})),
        map(json!({"items": {"properties": {"l": {"type": "string"}}}, "x-kubernetes-list-map-keys": ["l"]})),
        map(
            json!({"items": {"properties": {"l": {"type": "string", "default": "x"}}}, "x-kubernetes-list-map-keys": ["l"]}),
        ),
    ]
}

fn maps() -> Vec<Value> {
    let a = |fields: Value| object(json!({"a": overlay(&json!({"type": "object"}), &fields)}));
    vec![
        a(json!({"x-kubernetes-map-type": "nonsense"})),
        a(json!({"x-kubernetes-map-type": "atomic"})),
        a(json!({"x-kubernetes-map-type": "granular", "additionalProperties": {"type": "string"}})),
        object(json!({"a": {"type": "string", "x-kubernetes-map-type": "atomic"}})),
    ]
}

fn metadata() -> Vec<Value> {
    let at = |metadata: Value| object(json!({"metadata": metadata}));
    vec![
        at(json!({"type": "object"})),
        at(json!({"type": "string"})),
        at(json!({"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}})),
        at(
            json!({"type": "object", "properties": {"generateName": {"type": "string"}, "labels": {"type": "object"}}}),
        ),
        at(json!({"type": "object", "description": "d"})),
        at(json!({"type": "object", "required": ["name"]})),
        at(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        object(json!({"kind": {"type": "integer"}, "apiVersion": {"type": "object"}})),
        object(json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "metadata": {"type": "string"}, "kind": {"type": "boolean"}}}})),
    ]
}

fn defaults() -> Vec<Value> {
    let a = |a: Value| object(json!({"a": a}));
    vec![
        a(json!({"type": "string", "default": "x"})),
        a(json!({"type": "string", "default": 5})),
        a(json!({"type": "string", "default": null})),
        a(json!({"type": "string", "nullable": true, "default": null})),
        a(json!({"type": "integer", "maximum": 3, "default": 4})),
        a(json!({"type": "string", "enum": ["x"], "default": "y"})),
        a(json!({"type": "string", "pattern": "^a", "default": "b"})),
        a(json!({"type": "object", "default": {"b": 1}})),
        a(json!({"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": 1, "c": 2}})),
        a(json!({"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"b": "x"}})),
        a(
            json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "default": {}}),
        ),
        a(
            json!({"type": "object", "properties": {"b": {"type": "integer", "default": 1}}, "required": ["b"], "default": {}}),
        ),
        a(
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "default": ["x", "x"]}),
        ),
        a(json!({"x-kubernetes-int-or-string": true, "default": true})),
        a(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true, "default": {}}),
        ),
        a(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"l": 5}}}}),
        ),
        json!({"type": "object", "default": {}}),
        object(json!({"metadata": {"type": "object", "default": {}}})),
        object(
            json!({"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}),
        ),
        a(
            json!({"type": "string", "default": "no", "x-kubernetes-validations": [{"rule": "self == 'yes'"}]}),
        ),
    ]
}

fn keywords() -> Vec<Value> {
    let a = |a: Value| object(json!({"a": a}));
    vec![
        a(json!({"type": "string", "pattern": "("})),
        a(json!({"type": "string", "pattern": "(?=x)"})),
        a(json!({"type": "string", "minLength": -1})),
        a(json!({"type": "string", "maxLength": "x"})),
        a(json!({"type": "integer", "multipleOf": 0})),
        a(json!({"type": "integer", "minimum": 1.5, "exclusiveMinimum": 3})),
        a(json!({"type": "string", "enum": []})),
        a(json!({"type": "string", "enum": ["x", "x"]})),
        a(json!({"type": "string", "enum": "x"})),
        a(json!({"type": "string", "format": "nonsense"})),
        a(json!({"type": "string", "format": "int32"})),
        a(json!({"type": "object", "required": ["b", "b"]})),
        a(json!({"type": ["string", "null"]})),
        a(json!("string")),
    ]
}

fn refusals() -> Vec<Step> {
    let good = with_schema(json!({"type": "object"}));
    let wrong = |fields: Value| Step::with(format!("POST {CRDS}?dryRun=All"), overlay(&good, &fields));
    let mut all = vec![
        wrong(json!({"metadata": {"name": "others.wire.example.com"}})),
        wrong(json!({"spec": {"group": ""}})),
        wrong(json!({"spec": {"group": "Bad_Group"}})),
        wrong(json!({"spec": {"group": "nodot"}, "metadata": {"name": "things.nodot"}})),
        wrong(json!({"spec": {"scope": ""}})),
        wrong(json!({"spec": {"scope": "Everywhere"}})),
        wrong(json!({"spec": {"names": {"plural": "Things"}}})),
        wrong(json!({"spec": {"names": {"kind": ""}}})),
        wrong(json!({"spec": {"names": {"kind": "Bad Kind", "listKind": "Bad Kind"}}})),
        wrong(
            json!({"spec": {"names": {"singular": "S", "shortNames": ["T", "ok"], "categories": ["All", "fine"]}}}),
        ),
        wrong(json!({"spec": {"versions": null}})),
        wrong(json!({"spec": {"preserveUnknownFields": true}})),
        wrong(json!({"spec": {"conversion": {"strategy": "Nonsense"}}})),
        wrong(json!({"spec": {"conversion": {"strategy": "Webhook"}}})),
        wrong(
            json!({"spec": {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}}}),
        ),
        wrong(
            json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": [],
            "clientConfig": {"url": "http://insecure"}}}}}),
        ),
        wrong(json!({"spec": {"unknown": 1}, "status": {"x": 1}})),
    ];
    all.extend(version_refusals());
    all
}

/// Refusals of what stands in `versions`.
fn version_refusals() -> Vec<Step> {
    let schema = json!({"type": "object"});
    let good = with_schema(schema.clone());
    let version = |fields: Value| {
        let version = overlay(&json!({"schema": {"openAPIV3Schema": schema}}), &fields);
        Step::with(format!("POST {CRDS}?dryRun=All"), definition("things.wire.example.com", version))
    };
    let two = |first: Value, second: Value| {
        let base = json!({"served": true, "schema": {"openAPIV3Schema": schema}});
        let versions = [overlay(&base, &first), overlay(&base, &second)];
        let mut definition = good.clone();
        definition["spec"]["versions"] = json!(versions);
        Step::with(format!("POST {CRDS}?dryRun=All"), definition)
    };
    vec![
        version(json!({"name": "V1"})),
        version(json!({"name": ""})),
        version(json!({"served": "x"})),
        version(json!({"storage": false})),
        version(json!({"schema": null})),
        version(json!({"schema": {"openAPIV3Schema": null}})),
        version(json!({"deprecationWarning": "w"})),
        version(json!({"deprecated": true, "deprecationWarning": ""})),
        version(json!({"deprecated": true, "deprecationWarning": "w"})),
        version(json!({"subresources": {"status": {}, "scale": {}}})),
        version(
            json!({"subresources": {"scale": {"specReplicasPath": "spec.replicas", "statusReplicasPath": ".status.r"}}}),
        ),
        version(
            json!({"subresources": {"scale": {"specReplicasPath": ".status.replicas", "statusReplicasPath": ".spec.r"}}}),
        ),
        version(
            json!({"subresources": {"scale": {"specReplicasPath": ".spec.a[0]", "statusReplicasPath": ".status.r",
            "labelSelectorPath": "status.s"}}}),
        ),
        version(json!({"subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"maxProperties": 4}}})),
        version(json!({"additionalPrinterColumns": [{"name": "", "type": "", "jsonPath": ""}]})),
        version(
            json!({"additionalPrinterColumns": [{"name": "A", "type": "nonsense", "jsonPath": "spec.a"}]}),
        ),
        version(
            json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "format": "nonsense", "jsonPath": ".spec["}]}),
        ),
        version(json!({"selectableFields": [{"jsonPath": ".spec.missing"}]})),
        version(json!({"selectableFields": [{"jsonPath": ""}, {"jsonPath": "spec"}]})),
        version(json!({"selectableFields": [{"jsonPath": ".metadata.name"}]})),
        two(json!({"name": "v1", "storage": true}), json!({"name": "v1"})),
        two(json!({"name": "v1", "storage": true}), json!({"name": "v2", "storage": true})),
        two(json!({"name": "v1"}), json!({"name": "v2"})),
        two(
            json!({"name": "v1", "storage": true, "subresources": {"status": {}}}),
            json!({"name": "v2", "subresources": {"scale": {"specReplicasPath": "x", "statusReplicasPath": "y"}}}),
        ),
        two(
            json!({"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {"properties": {"a": {}}}}}),
            json!({"name": "v2", "schema": {"openAPIV3Schema": {"properties": {"b": {"type": "nonsense"}}}}}),
        ),
    ]
}

fn rules() -> Vec<Step> {
    let rule = |kind: Value, rule: Value| {
        let a = overlay(&kind, &json!({"x-kubernetes-validations": [rule]}));
        Step::with(format!("POST {CRDS}?dryRun=All"), with_schema(object(json!({"a": a}))))
    };
    let text = || json!({"type": "string", "maxLength": 10});
    let thing = || {
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string", "maxLength": 9},
        "l": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 3}}}})
    };
    vec![
        rule(text(), json!({"rule": ""})),
        rule(text(), json!({"rule": "self.size() <"})),
        rule(text(), json!({"rule": "self"})),
        rule(text(), json!({"rule": "self > 5"})),
        rule(text(), json!({"rule": "unknown == 'x'"})),
        rule(text(), json!({"rule": "self == 'x'", "message": ""})),
        rule(text(), json!({"rule": "self == 'x'", "message": " "})),
        rule(text(), json!({"rule": "self == 'x'", "message": "a\nb"})),
        rule(text(), json!({"rule": "self\n== 'x'"})),
        rule(text(), json!({"rule": "self == 'x'", "reason": "Nonsense"})),
        rule(text(), json!({"rule": "self == 'x'", "messageExpression": "5"})),
        rule(text(), json!({"rule": "self == 'x'", "messageExpression": " "})),
        rule(text(), json!({"rule": "self == 'x'", "fieldPath": ".n"})),
        rule(thing(), json!({"rule": "self.n > 1", "fieldPath": ".n"})),
        rule(thing(), json!({"rule": "self.n > 1", "fieldPath": ".missing"})),
        rule(thing(), json!({"rule": "self.n > 1", "fieldPath": "n"})),
        rule(thing(), json!({"rule": "self.missing > 1"})),
        rule(thing(), json!({"rule": "has(self.n) && self.n > 'x'"})),
        rule(thing(), json!({"rule": "self.l.all(x, x.size() > 1)"})),
        rule(thing(), json!({"rule": "self.l.exists(x, x == 5)"})),
        rule(thing(), json!({"rule": "self.n + self.s == 'x'"})),
        rule(thing(), json!({"rule": "!has(oldSelf.n) || self.n == oldSelf.n"})),
        rule(thing(), json!({"rule": "oldSelf.orValue(self).n == self.n", "optionalOldSelf": true})),
    ]
}
