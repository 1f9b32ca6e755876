use serde_json::{Value, json};

use crate::Interrupt;

use super::{MAX_OPERATIONS, PatchError, apply_json_patch, apply_merge_patch};

fn patched(target: Value, patch: Value) -> Result<Value, PatchError> {
    let mut target = target;
    apply_json_patch(&mut target, &patch, &Interrupt::default())?;
    Ok(target)
}

fn merged(target: Value, patch: Value) -> Value {
    let mut target = target;
    apply_merge_patch(&mut target, patch).unwrap();
    target
}

#[test]
fn merge_patch_follows_rfc_7386() {
    assert_eq!(
        merged(json!({"a": "b", "c": {"d": 1}}), json!({"a": null, "c": {"e": 2}})),
        json!({"c": {"d": 1, "e": 2}})
    );
    assert_eq!(merged(json!({"a": [1]}), json!({"a": {"b": {"c": null}}})), json!({"a": {"b": {}}}));
    assert_eq!(merged(json!({}), json!({"a": [{"x": null}, null]})), json!({"a": [{}, null]}));
    assert_eq!(apply_merge_patch(&mut json!({}), Value::Null), Err(PatchError::BadMergePatch));
}

#[test]
fn copies_that_double_the_object_end() {
    let copies = |count: usize| {
        let copy = |number| json!({"op": "copy", "from": "/a", "path": format!("/a/k{number}")});
        patched(json!({"a": {"b": {}}}), Value::Array((0..count).map(copy).collect()))
    };
    assert_eq!(copies(2), Ok(json!({"a": {"b": {}, "k0": {"b": {}}, "k1": {"b": {}, "k0": {"b": {}}}}})));
    let Err(PatchError::Unprocessable(error)) = copies(40) else { panic!("40 copies would be terabytes") };
    assert!(error.ends_with("exceeding the limit 3145728"), "{error}");
}

#[test]
fn operations_apply_in_turn() {
    let patch = json!([
        {"op": "test", "path": "/a/0", "value": 1.0},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "add", "path": "/a/-1", "value": 9},
        {"op": "remove", "path": "/a/0"},
        {"op": "replace", "path": "/new", "value": {"x~/": 1}},
        {"op": "copy", "from": "/new", "path": "/copy"},
        {"op": "move", "from": "/new/x~0~1", "path": "/moved"},
    ]);
    let expected = json!({"a": [2, 3, 9], "new": {}, "copy": {"x~/": 1}, "moved": 1});
    assert_eq!(patched(json!({"a": [1, 2]}), patch), Ok(expected));
}

#[test]
fn failures_carry_the_servers_texts() {
    let text = |patch: Value| patched(json!({"a": [1], "b": {"c": 1}}), patch).unwrap_err().to_string();
    assert_eq!(
        text(json!([{"op": "test", "path": "/b/c", "value": 2}])),
        "testing value /b/c failed: test failed"
    );
    assert_eq!(
        text(json!([{"op": "remove", "path": "/b/d"}])),
        "error in remove for path: '/b/d': Unable to remove nonexistent key: d: missing value"
    );
    assert_eq!(
        text(json!([{"op": "add", "path": "/x/y", "value": 1}])),
        "add operation does not apply: doc is missing path: \"/x/y\": missing value"
    );
    assert_eq!(
        text(json!([{"op": "replace", "path": "/a/4", "value": 1}])),
        "replace operation does not apply: doc is missing key: /a/4: missing value"
    );
    assert_eq!(text(json!([{"op": "jump", "path": "/a"}])), "Unexpected kind: jump");
    let many: Vec<Value> = vec![json!({"op": "test", "path": "/a/0", "value": 1}); MAX_OPERATIONS + 1];
    assert_eq!(
        text(Value::Array(many)),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

/// Each copy doubles the depth. The stack would end long before the largest patch does.
#[test]
fn few_operations_do_not_nest_an_object_without_end() {
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
    let mut levels = 1;
    while levels < 100_000 {
        let path = format!("{}/a", "/a".repeat(levels));
        operations.push(json!({"op": "copy", "from": "/a", "path": path}));
        levels *= 2;
    }
    assert_eq!(patched(json!({}), json!(operations)), Err(PatchError::TooDeep));
    let add = |levels: usize| json!([{"op": "add", "path": "/a", "value": nested(levels)}]);
    assert!(patched(json!({}), add(100)).is_ok());
    assert_eq!(patched(json!({}), add(300)), Err(PatchError::TooDeep));
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[test]
fn moving_to_and_fro_nests_nothing() {
    let there = json!({"op": "move", "from": "/a", "path": "/b/a"});
    let back = json!({"op": "move", "from": "/b/a", "path": "/a"});
    let moves: Vec<Value> = [there, back].into_iter().cycle().take(MAX_OPERATIONS).collect();
    let object = json!({"a": nested(100), "b": {}});
    assert_eq!(patched(object.clone(), json!(moves)), Ok(object));
}

#[test]
fn an_interrupted_patch_ends() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let mut target = json!({});
    apply_json_patch(&mut target, &json!([{"op": "add", "path": "/a", "value": 1}]), &interrupt).unwrap();
    assert_eq!(target, json!({}));
}
