//! Small damages to a document: other types, nulls, unknown and doubled fields, at any depth.

use serde_json::{Value, json};
use setpoint_api::Random;

/// One of the items.
pub(super) fn pick<'a, T>(random: &Random, items: &'a [T]) -> &'a T {
    &items[index(random, items.len())]
}

fn index(random: &Random, length: usize) -> usize {
    usize::try_from(random.below(u64::try_from(length.max(1)).unwrap_or(1))).unwrap_or_default()
}

/// A value that does not fit a field's type.
fn odd(random: &Random) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(""),
        json!("odd"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"odd": 1}),
        json!([{"odd": "x"}]),
    ];
    pick(random, &all).clone()
}

/// Changes one thing somewhere below the top; the head of the object stays.
pub(super) fn damage(random: &Random, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let fixed = ["apiVersion", "kind", "name"];
            let names: Vec<String> =
                map.keys().filter(|name| !fixed.contains(&name.as_str())).cloned().collect();
            if names.is_empty() {
                return;
            }
            let name = pick(random, &names).clone();
            match random.below(12) {
                0 if name != "metadata" => drop(map.remove(&name)),
                1 => drop(map.insert("unknownHere".to_owned(), json!("x"))),
                2 | 3 if name != "metadata" => drop(map.insert(name, odd(random))),
                _ => damage(random, map.get_mut(&name).expect("picked among its keys")),
            }
        }
        Value::Array(items) if !items.is_empty() => match random.below(12) {
            0 => items.push(odd(random)),
            1 => items.push(items[0].clone()),
            2 => items.reverse(),
            _ => {
                let at = index(random, items.len());
                damage(random, &mut items[at]);
            }
        },
        other => *other = odd(random),
    }
}

/// JSON text in which one or two objects have a key twice.
pub(super) fn doubled(random: &Random, value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut all: Vec<String> = Vec::new();
            let twice = if random.below(3) == 0 { index(random, map.len()) } else { map.len() };
            for (at, (name, inner)) in map.iter().enumerate() {
                if at == twice && !matches!(name.as_str(), "apiVersion" | "kind" | "name") {
                    all.push(format!("{}:{inner}", json!(name)));
                }
                all.push(format!("{}:{}", json!(name), doubled(random, inner)));
            }
            format!("{{{}}}", all.join(","))
        }
        Value::Array(items) => {
            let all: Vec<String> = items.iter().map(|inner| doubled(random, inner)).collect();
            format!("[{}]", all.join(","))
        }
        scalar => scalar.to_string(),
    }
}

/// A document as YAML in blocks, a key of it perhaps twice.
pub(super) fn yaml(random: &Random, value: &Value, indent: usize, out: &mut String, double: bool) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, inner) in map {
                let head = matches!(name.as_str(), "apiVersion" | "kind" | "name" | "metadata");
                let times = if double && !head && random.below(6) == 0 { 2 } else { 1 };
                for _ in 0..times {
                    out.push_str(&format!("{pad}{}:", json!(name)));
                    below(random, inner, indent + 2, out, double);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for inner in items {
                out.push_str(&format!("{pad}-"));
                below(random, inner, indent + 2, out, double);
            }
        }
        scalar => out.push_str(&format!("{pad}{scalar}\n")),
    }
}

fn below(random: &Random, value: &Value, indent: usize, out: &mut String, double: bool) {
    let block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if block {
        out.push('\n');
        yaml(random, value, indent, out, double);
    } else {
        out.push_str(&format!(" {value}\n"));
    }
}
