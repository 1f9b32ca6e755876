//! Go structs, printed as the API server's own types print them.
//!
//! Some refusals show a whole struct, and the server's internal types have no JSON names: fields are spelt as
//! in Go, in the order of their declaration, absent ones included. `types.txt` lists those types; each field
//! is `Name=path.in.json:type`, with `?` after the name where an empty value is left out. It is made by
//! `go run ./shapes` in `peers/kubernetes`.

mod diff;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

pub(crate) use diff::unified;

use crate::access::at;
use setpoint_api::go_format;
use setpoint_api::quantity::Quantity;

struct Field {
    shown: &'static str,
    omit: bool,
    path: &'static str,
    kind: &'static str,
}

fn types() -> &'static BTreeMap<&'static str, Vec<Field>> {
    static TYPES: OnceLock<BTreeMap<&'static str, Vec<Field>>> = OnceLock::new();
    TYPES.get_or_init(|| include_str!("types.txt").lines().filter_map(parse_type).collect())
}

fn parse_type(line: &'static str) -> Option<(&'static str, Vec<Field>)> {
    let (name, fields) = line.split_once(' ')?;
    let fields = fields.split(' ').filter_map(|field| {
        let (shown, rest) = field.split_once('=')?;
        let (path, kind) = rest.split_once(':')?;
        let omit = shown.ends_with('?');
        Some(Field { shown: shown.trim_end_matches('?'), omit, path, kind })
    });
    Some((name, fields.collect()))
}

/// A value in one line.
pub(crate) fn line(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(kind, value, None, &mut out);
    out
}

/// A value over several lines, one space a level.
pub(crate) fn pretty(kind: &str, value: &Value) -> String {
    let mut out = String::new();
    write(kind, value, Some(0), &mut out);
    out
}

fn write(kind: &str, value: &Value, depth: Option<usize>, out: &mut String) {
    if let Some(inner) = kind.strip_prefix('*') {
        if value.is_null() {
            out.push_str("null")
        } else {
            write(inner, value, depth, out)
        }
        return;
    }
    if let Some(inner) = kind.strip_prefix("[]") {
        let Some(items) = value.as_array() else { return out.push_str("null") };
        return block(out, depth, ['[', ']'], items.iter().map(|item| (None, inner, item)));
    }
    if let Some(inner) = kind.strip_prefix("{}") {
        let Some(entries) = value.as_object() else { return out.push_str("null") };
        return block(out, depth, ['{', '}'], entries.iter().map(|(key, item)| (Some(&**key), inner, item)));
    }
    if let Some(fields) = types().get(kind) {
        let shown = fields.iter().filter_map(|field| {
            let value = if field.path.is_empty() { &Value::Null } else { at(value, field.path) };
            let hidden = field.omit && is_empty(value);
            (!hidden).then_some((Some(field.shown), field.kind, value))
        });
        return block(out, depth, ['{', '}'], shown);
    }
    scalar(kind, value, out);
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn scalar(kind: &str, value: &Value, out: &mut String) {
    match (kind, value) {
        ("s", Value::Null) => out.push_str("\"\""),
        ("b", Value::Null) => out.push_str("false"),
        ("i" | "f" | "intorstring", Value::Null) => out.push('0'),
        ("quantity", value) => match Quantity::from_json(value) {
            Ok(quantity) => out.push_str(&go_format::json(&quantity.to_string().into())),
            Err(_) => out.push_str("\"0\""),
        },
        (_, value) => out.push_str(&go_format::json(value)),
    }
}

/// A list or an object: empty ones stay on one line.
fn block<'a>(
    out: &mut String,
    depth: Option<usize>,
    [open, close]: [char; 2],
    members: impl Iterator<Item = (Option<&'a str>, &'a str, &'a Value)>,
) {
    out.push(open);
    let inner = depth.map(|depth| depth + 1);
    let mut empty = true;
    for (name, kind, value) in members {
        if !empty {
            out.push(',');
        }
        empty = false;
        new_line(out, inner);
        if let Some(name) = name {
            out.push_str(&go_format::json(&name.into()));
            out.push_str(if depth.is_some() { ": " } else { ":" });
        }
        write(kind, value, inner, out);
    }
    if !empty {
        new_line(out, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn structs_show_every_field_in_go_order() {
        assert_eq!(
            line("core.ServicePort", &json!({"port": 80, "targetPort": "a"})),
            r#"{"Name":"","Protocol":"","AppProtocol":null,"Port":80,"TargetPort":"a","NodePort":0}"#
        );
        assert_eq!(
            line("rbac.RoleRef", &json!({"kind": "Role", "name": "x", "apiGroup": "g"})),
            r#"{"APIGroup":"g","Kind":"Role","Name":"x"}"#
        );
    }

    #[test]
    fn every_type_that_a_field_names_is_listed() {
        for (name, fields) in types() {
            for field in fields {
                let kind = field.kind.trim_start_matches(['*', '[', ']', '{', '}']);
                let known = matches!(
                    kind,
                    "s" | "b" | "i" | "f" | "quantity" | "intorstring" | "time" | "bytes" | "any"
                );
                assert!(
                    known || types().contains_key(kind) || kind == "v1.FieldsV1",
                    "{name}.{}: {kind}",
                    field.shown
                );
            }
        }
    }
}
