use serde_json::{Value, json};

use super::Structural;
use setpoint_schema::{ListKind, Shape};

fn spec(schema: Value) -> Value {
    json!({"type": "object", "properties": {"spec": schema}})
}

fn refusals(schema: Value) -> Vec<String> {
    let refusals = Structural::compile(&schema).err().unwrap_or_default();
    let short =
        |cause: &setpoint_api::Cause| cause.to_string().replace("spec.validation.openAPIV3Schema", "~");
    refusals.iter().map(short).collect()
}

fn causes(schema: Value, object: Value, old: Option<Value>) -> Vec<String> {
    let structural = Structural::compile(&spec(schema)).unwrap();
    let object = json!({"spec": object});
    let old = old.map(|old| json!({"spec": old}));
    structural.validate(&object, old.as_ref()).iter().map(ToString::to_string).collect()
}

#[test]
fn every_node_needs_a_type() {
    assert_eq!(refusals(json!({})), ["~.type: Required value: must not be empty at the root"]);
    assert_eq!(
        refusals(spec(json!({"type": "array", "items": {}}))),
        ["~.properties[spec].items.type: Required value: must not be empty for specified array items"]
    );
    assert_eq!(
        refusals(spec(json!({"type": "foo"}))),
        [
            r#"~.properties[spec].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string""#
        ]
    );
    assert!(
        refusals(spec(
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
        ))
        .is_empty()
    );
}

#[test]
fn junctors_hold_validation_only() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "anyOf": [{"properties": {"a": {"minLength": 1, "default": "x"}, "b": {}}}]});
    assert_eq!(
        refusals(schema),
        [
            "~.anyOf[0].properties[a].default: Forbidden: must be undefined to be structural",
            "~.properties[b]: Required value: because it is defined in ~.anyOf[0].properties[b]",
        ]
    );
}

#[test]
fn lists_and_defaults_are_checked() {
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
        "items": {"type": "object", "properties": {"a": {"type": "string"}}}});
    assert_eq!(
        refusals(spec(keyed)),
        [
            "~.properties[spec].items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        ]
    );
    assert_eq!(
        refusals(spec(json!({"type": "integer", "maximum": 3, "default": 5}))),
        ["~.properties[spec].default: Invalid value: 5:  in body should be less than or equal to 3"]
    );
    assert_eq!(
        refusals(spec(json!({"type": "object", "default": {"x": 1}}))),
        [r#"~.properties[spec].default: Invalid value: {"x":1}: must not have unknown fields"#]
    );
}

#[test]
fn the_form_has_the_same_merge_rules_as_built_in_kinds() {
    let schema = spec(json!({"type": "object", "properties": {
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p"],
            "items": {"type": "object", "required": ["p"], "properties": {"p": {"type": "integer"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
        "any": {"x-kubernetes-preserve-unknown-fields": true}}}));
    let structural = Structural::compile(&schema).unwrap();
    let spec = structural.schema().child("spec").unwrap();
    assert!(
        matches!(&spec.child("ports").unwrap().shape, Shape::List { kind: ListKind::Map(keys), .. } if keys.len() == 1)
    );
    assert!(matches!(spec.child("labels").unwrap().shape, Shape::Map { atomic: true, .. }));
    assert!(matches!(spec.child("any").unwrap().shape, Shape::Any));
    assert!(structural.schema().child("metadata").is_some());
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let schema = spec(json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"in": {"type": "object"}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}));
    let structural = Structural::compile(&schema).unwrap();
    let mut object = json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x"}, "other": 1, "spec": {
        "known": "x", "nope": {"a": 1}, "list": [{"a": "1", "b": 2}],
        "free": {"out": 1, "in": {"gone": 1}},
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n", "bogus": 1}, "spec": {"a": 1}}}});
    let dropped = structural.prune(&mut object);
    assert_eq!(
        dropped,
        ["other", "spec.embedded.metadata.bogus", "spec.free.in.gone", "spec.list[0].b", "spec.nope"]
    );
    assert_eq!(
        object["spec"],
        json!({"known": "x", "list": [{"a": "1"}], "free": {"out": 1, "in": {}},
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {"a": 1}}})
    );
}

#[test]
fn defaults_fill_what_is_absent_or_wrongly_null() {
    let schema = spec(json!({"type": "object", "default": {}, "properties": {
        "a": {"type": "integer", "default": 1},
        "n": {"type": "string", "nullable": true, "default": "N"},
        "x": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string", "default": "D"}}}}}}));
    let structural = Structural::compile(&schema).unwrap();
    let filled = |mut object: Value| {
        structural.default(&mut object);
        object
    };
    assert_eq!(filled(json!({})), json!({"spec": {"a": 1, "n": "N"}}));
    assert_eq!(
        filled(json!({"spec": {"a": null, "n": null, "x": null, "list": [{}]}})),
        json!({"spec": {"a": 1, "n": null, "list": [{"d": "D"}]}})
    );
}

#[test]
fn values_are_refused_in_the_servers_words() {
    assert_eq!(
        causes(json!({"type": "string", "minLength": 2}), json!(1), None),
        [r#"spec: Invalid value: "integer": spec in body must be of type string: "integer""#]
    );
    assert_eq!(
        causes(
            json!({"type": "array", "maxItems": 1, "items": {"type": "string", "maxLength": 1}}),
            json!(["ab", "c"]),
            None
        ),
        ["spec[0]: Too long: may not be more than 1 byte", "spec: Too many: 2: must have at most 1 item"]
    );
    assert_eq!(
        causes(
            json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "integer", "enum": [1]}}),
            json!({"b": 2}),
            None
        ),
        [r#"spec.b: Unsupported value: 2: supported values: "1""#, "spec.a: Required value"]
    );
    assert_eq!(
        causes(
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            None
        ),
        [
            r#"<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.a: Required value"
        ]
    );
    assert_eq!(
        causes(
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "b", "a", "a"]),
            None
        ),
        [r#"spec[2]: Duplicate value: "a""#]
    );
    assert_eq!(
        causes(json!({"type": "integer", "format": "int32"}), json!(2_147_483_648_i64), None),
        [r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#]
    );
}

#[test]
fn what_did_not_change_is_not_held_against_an_update() {
    let schema = || {
        json!({"type": "object", "properties": {
            "a": {"type": "string", "maxLength": 1},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 3}}}}}})
    };
    let old = json!({"a": "long", "list": [{"k": "x", "v": 9}]});
    assert!(
        causes(
            schema(),
            json!({"a": "long", "list": [{"k": "y", "v": 1}, {"k": "x", "v": 9}]}),
            Some(old.clone())
        )
        .is_empty()
    );
    assert_eq!(
        causes(schema(), json!({"a": "longer", "list": [{"k": "x", "v": 8}]}), Some(old)),
        [
            "spec.a: Too long: may not be more than 1 byte",
            "spec.list[0].v: Invalid value: 8: spec.list[0].v in body should be less than or equal to 3"
        ]
    );
}
