//! `cargo xtask bench growth`: measures how the algorithms over a request body grow when the body is ten times
//! larger. Ten times the time is linear. A hundred times is quadratic.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use setpoint_machinery::Interrupt;
use setpoint_machinery::fieldset::FieldSet;
use setpoint_machinery::patch::{apply_json_patch, apply_merge_patch};
use setpoint_machinery::strategic;
use setpoint_machinery::structural::Structural;
use setpoint_schema::{Schema, builtin, read_json};

/// One algorithm: makes the input of a size, and gives what runs over it.
type Case = fn(&Schema, usize) -> Box<dyn FnOnce()>;

const CASES: [(&str, usize, Case); 14] = [
    ("JSON patch: move of a large map", 1000, |_, count| {
        let object = json!({"a": map(20_000)});
        let there = json!({"op": "move", "from": "/a", "path": "/b"});
        let back = json!({"op": "move", "from": "/b", "path": "/a"});
        json_patch(object, [there, back].into_iter().cycle().take(count).collect())
    }),
    ("JSON patch: test in a large map", 1000, |_, count| {
        let test = json!({"op": "test", "path": "/a/key-7", "value": 7});
        json_patch(json!({"a": map(20_000)}), vec![test; count])
    }),
    ("JSON patch: add to a list's end", 1000, |_, count| {
        json_patch(json!({"a": []}), vec![json!({"op": "add", "path": "/a/-", "value": 1}); count])
    }),
    ("JSON patch: remove a list's first", 1000, |_, count| {
        let list: Vec<usize> = (0..count).collect();
        json_patch(json!({"a": list}), vec![json!({"op": "remove", "path": "/a/0"}); count])
    }),
    ("JSON patch: remove a list's middle", 1000, |_, count| {
        let list: Vec<usize> = (0..75 * count).collect();
        let path = format!("/a/{}", 37 * count);
        json_patch(json!({"a": list}), vec![json!({"op": "remove", "path": path}); count])
    }),
    ("JSON patch: add to a list's middle", 1000, |_, count| {
        let list: Vec<usize> = (0..75 * count).collect();
        let path = format!("/a/{}", 37 * count);
        json_patch(json!({"a": list}), vec![json!({"op": "add", "path": path, "value": 1}); count])
    }),
    ("merge patch", 10_000, |_, count| {
        let (mut object, patch) = (json!({"a": map(count)}), json!({"a": map(count)}));
        Box::new(move || drop(black_box(apply_merge_patch(&mut object, patch))))
    }),
    ("strategic merge: reordered items", 4000, |schema, count| {
        let order: Vec<Value> = shuffled(count).map(|number| json!({"name": number.to_string()})).collect();
        let patch = json!({"spec": {"$setElementOrder/containers": order, "containers": order}});
        strategic_merge(schema, pod(count), patch)
    }),
    ("strategic merge: deleted items", 4000, |schema, count| {
        let deleted = |number: usize| json!({"name": number.to_string(), "$patch": "delete"});
        let deleted: Vec<Value> = shuffled(count).map(deleted).collect();
        strategic_merge(schema, pod(count), json!({"spec": {"containers": deleted}}))
    }),
    ("strategic merge: primitives", 4000, |schema, count| {
        let texts: Vec<String> = shuffled(count).map(|number| format!("a/{number}")).collect();
        let live = json!({"metadata": {"finalizers": texts}});
        strategic_merge(schema, live, json!({"metadata": {"finalizers": texts[1..]}}))
    }),
    ("managedFields: reading", 20_000, |_, count| {
        let fields: Map<String, Value> =
            shuffled(count).map(|number| (format!("i:{number}"), json!({}))).collect();
        let fields = Value::Object(fields);
        Box::new(move || drop(black_box(FieldSet::from_fields_v1(&fields))))
    }),
    ("list type set: uniqueness", 10_000, |_, count| {
        let numbers: Vec<usize> = shuffled(count).collect();
        lists(json!({"type": "integer"}), "set", json!(numbers))
    }),
    ("list type map: uniqueness and old items", 10_000, |_, count| {
        let items: Vec<Value> = shuffled(count).map(|number| json!({"k": number})).collect();
        let item = json!({"type": "object", "properties": {"k": {"type": "integer"}}});
        lists(item, "map", json!(items))
    }),
    ("JSON: reading a pod", 4000, |schema, count| {
        let (schema, text) = (schema.clone(), pod(count).to_string());
        Box::new(move || drop(black_box(read_json(text.as_bytes(), &schema))))
    }),
];

/// Prints what each takes at both sizes.
pub fn run() -> Result<()> {
    let schema = builtin().schema("", "v1", "Pod").context("there is no type of pods")?;
    println!("{:<42} {:>8} {:>10} {:>10} {:>7}", "algorithm", "size", "seconds", "ten times", "growth");
    for (name, size, case) in CASES {
        let (one, ten) = (timed(case(&schema, size)), timed(case(&schema, 10 * size)));
        let growth = ten.as_secs_f64() / one.as_secs_f64();
        println!(
            "{name:<42} {size:>8} {:>10.4} {:>10.4} {growth:>7.1}",
            one.as_secs_f64(),
            ten.as_secs_f64()
        );
    }
    Ok(())
}

fn timed(run: Box<dyn FnOnce()>) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Numbers below `count`, each once, in an order far from their own.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |number| number * 7919 % count)
}

fn map(count: usize) -> Map<String, Value> {
    (0..count).map(|number| (format!("key-{number}"), json!(number))).collect()
}

fn pod(count: usize) -> Value {
    let containers: Vec<Value> =
        (0..count).map(|number| json!({"name": number.to_string(), "image": "a"})).collect();
    json!({"spec": {"containers": containers}})
}

fn json_patch(mut object: Value, operations: Vec<Value>) -> Box<dyn FnOnce()> {
    let patch = Value::Array(operations);
    Box::new(move || drop(black_box(apply_json_patch(&mut object, &patch, &Interrupt::default()))))
}

fn strategic_merge(schema: &Schema, live: Value, patch: Value) -> Box<dyn FnOnce()> {
    let schema = schema.clone();
    Box::new(move || drop(black_box(strategic::apply(live, patch, &schema))))
}

fn lists(item: Value, kind: &str, items: Value) -> Box<dyn FnOnce()> {
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["k"]});
    let structural = Structural::read(&json!({"type": "object", "properties": {"list": list}}));
    let object = json!({"list": items});
    Box::new(move || {
        drop(black_box(structural.validate_lists(&object, Some(&object))));
        drop(black_box(structural.validate_values(&object, Some(&object), &Interrupt::default())));
    })
}
