//! Requests as large as they may be. Each of these took a minute or more when it grew with the square of its input; the
//! bounds are generous.
#![allow(clippy::disallowed_methods, reason = "a bound in seconds needs a clock")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use setpoint_machinery::Interrupt;
use setpoint_machinery::fieldset::FieldSet;
use setpoint_machinery::patch::apply_json_patch;
use setpoint_machinery::strategic;
use setpoint_machinery::structural::Structural;
use setpoint_schema::builtin;

/// Runs what must not take longer than this.
fn soon<T>(run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    result
}

/// The signal of a request whose client waits.
fn never() -> Interrupt {
    Interrupt::default()
}

/// Numbers below `count`, each once, in an order far from their own.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |number| number * 7919 % count)
}

#[test]
fn a_move_takes_what_it_moves() {
    let large: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (format!("key-{number}"), json!("value"))).collect();
    let mut object = json!({"a": large});
    let moves: Vec<Value> = (0..5_000)
        .flat_map(|_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        })
        .collect();
    let before = object.clone();
    soon(|| apply_json_patch(&mut object, &Value::Array(moves), &never())).unwrap();
    assert_eq!(object, before);
    let test = json!({"op": "test", "path": "/a", "value": {}});
    let failed = soon(|| apply_json_patch(&mut object, &json!([test]), &never())).unwrap_err();
    assert_eq!(failed.to_string(), "testing value /a failed: test failed");
    let tests = vec![json!({"op": "test", "path": "/a/key-7", "value": "value"}); 10_000];
    soon(|| apply_json_patch(&mut object, &Value::Array(tests), &never())).unwrap();
}

#[test]
fn a_strategic_merge_looks_up_what_it_merges() {
    const COUNT: usize = 30_000;
    let schema = builtin().schema("", "v1", "Pod").unwrap();
    let container = |number: usize| json!({"name": format!("c{number}"), "image": "a"});
    let live = json!({"spec": {"containers": (0..COUNT).map(container).collect::<Vec<_>>()}});
    let order: Vec<Value> = shuffled(COUNT).map(|number| json!({"name": format!("c{number}")})).collect();
    let changed: Vec<Value> = order.iter().map(|item| json!({"name": item["name"], "image": "b"})).collect();
    let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": changed}});
    let merged = soon(|| strategic::apply(live.clone(), patch, &schema)).unwrap();
    assert_eq!(merged.pointer("/spec/containers"), Some(&Value::Array(changed)));
    let deleted: Vec<Value> = shuffled(COUNT)
        .take(COUNT - 1)
        .map(|number| json!({"name": format!("c{number}"), "$patch": "delete"}))
        .collect();
    let order = &order[COUNT - 1..];
    let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": deleted}});
    let merged = soon(|| strategic::apply(live, patch, &schema)).unwrap();
    assert_eq!(merged.pointer("/spec/containers").and_then(Value::as_array).map(Vec::len), Some(1));
    let finalizers: Vec<String> = shuffled(COUNT).map(|number| format!("a/{number}")).collect();
    let live = json!({"metadata": {"finalizers": finalizers}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers[1..]}});
    let merged = soon(|| strategic::apply(live.clone(), patch, &schema)).unwrap();
    assert_eq!(merged.pointer("/metadata/finalizers"), Some(&json!([finalizers[0]])));
    let patch = json!({"metadata": {"finalizers": finalizers}});
    let merged = soon(|| strategic::apply(live.clone(), patch, &schema)).unwrap();
    assert_eq!(merged, live);
}

#[test]
fn duplicates_in_lists_are_found_in_one_pass() {
    const COUNT: usize = 50_000;
    let key = json!({"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]});
    let structural = Structural::read(&json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": key},
    }}));
    let mut numbers: Vec<usize> = shuffled(COUNT).collect();
    numbers.push(5);
    let items: Vec<Value> = numbers.iter().map(|number| json!({"k": number})).collect();
    let object = json!({"set": numbers, "map": items});
    let causes = soon(|| structural.validate_lists(&object, None));
    let told: Vec<String> = causes.iter().map(ToString::to_string).collect();
    assert_eq!(told, [r#"map[50000]: Duplicate value: {"k":5}"#, "set[50000]: Duplicate value: 5"]);
    let causes = soon(|| structural.validate_lists(&object, Some(&object)));
    assert!(causes.len() <= 2);
    assert!(soon(|| structural.validate_values(&object, Some(&object), &never())).is_empty());
}

#[test]
fn field_sets_are_sorted_once() {
    let fields: serde_json::Map<String, Value> =
        shuffled(300_000).map(|number| (format!("i:{number}"), json!({}))).collect();
    let set = soon(|| FieldSet::from_fields_v1(&Value::Object(fields))).unwrap();
    assert_eq!(set.len(), 300_000);
}

/// The longest list that an object can have, and the most operations, each in its middle.
#[test]
fn an_item_in_the_middle_of_a_list_comes_and_goes_quickly() {
    let list: Vec<u8> = vec![1; 700_000];
    let mut object = json!({"a": list});
    let there = json!({"op": "remove", "path": "/a/350000"});
    let back = json!({"op": "add", "path": "/a/350000", "value": 1});
    let operations: Vec<Value> = [there, back].into_iter().cycle().take(10_000).collect();
    let before = object.clone();
    soon(|| apply_json_patch(&mut object, &Value::Array(operations), &never())).unwrap();
    assert_eq!(object, before);
}
