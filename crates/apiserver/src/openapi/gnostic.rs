//! The OpenAPI 2 document as gnostic's protobuf, which client-go's `OpenAPISchema()` asks for and nothing else.

use serde_json::{Map, Value};

/// The document's bytes.
pub fn encode(document: &Value) -> Vec<u8> {
    message(document, DOCUMENT)
}

/// How a JSON member stands in its message.
enum Kind {
    Text,
    Bool,
    Whole,
    Number,
    Texts,
    /// Free JSON, as YAML text.
    Any,
    Anys,
    Message(&'static [Member]),
    /// One of the forms that only this place has.
    Special(fn(&Value) -> Vec<u8>),
    Specials(fn(&Value) -> Vec<u8>),
}

/// A JSON member, its number and its kind.
type Member = (&'static str, u32, Kind);

const DOCUMENT: &[Member] = &[
    ("swagger", 1, Kind::Text),
    ("info", 2, Kind::Message(INFO)),
    ("paths", 8, Kind::Special(paths)),
    ("definitions", 9, Kind::Special(schemas)),
    ("parameters", 10, Kind::Special(parameter_definitions)),
    ("security", 12, Kind::Specials(security_requirement)),
    ("securityDefinitions", 13, Kind::Special(security_definitions)),
    (EXTENSIONS, 16, Kind::Any),
];
const INFO: &[Member] = &[
    ("title", 1, Kind::Text),
    ("version", 2, Kind::Text),
    ("description", 3, Kind::Text),
    (EXTENSIONS, 7, Kind::Any),
];
const PATH_ITEM: &[Member] = &[
    ("$ref", 1, Kind::Text),
    ("get", 2, Kind::Message(OPERATION)),
    ("put", 3, Kind::Message(OPERATION)),
    ("post", 4, Kind::Message(OPERATION)),
    ("delete", 5, Kind::Message(OPERATION)),
    ("options", 6, Kind::Message(OPERATION)),
    ("head", 7, Kind::Message(OPERATION)),
    ("patch", 8, Kind::Message(OPERATION)),
    ("parameters", 9, Kind::Specials(parameters_item)),
    (EXTENSIONS, 10, Kind::Any),
];
const OPERATION: &[Member] = &[
    ("tags", 1, Kind::Texts),
    ("summary", 2, Kind::Text),
    ("description", 3, Kind::Text),
    ("operationId", 5, Kind::Text),
    ("produces", 6, Kind::Texts),
    ("consumes", 7, Kind::Texts),
    ("parameters", 8, Kind::Specials(parameters_item)),
    ("responses", 9, Kind::Special(responses)),
    ("schemes", 10, Kind::Texts),
    ("deprecated", 11, Kind::Bool),
    (EXTENSIONS, 13, Kind::Any),
];
const SCHEMA: &[Member] = &[
    ("$ref", 1, Kind::Text),
    ("format", 2, Kind::Text),
    ("title", 3, Kind::Text),
    ("description", 4, Kind::Text),
    ("default", 5, Kind::Any),
    ("multipleOf", 6, Kind::Number),
    ("maximum", 7, Kind::Number),
    ("exclusiveMaximum", 8, Kind::Bool),
    ("minimum", 9, Kind::Number),
    ("exclusiveMinimum", 10, Kind::Bool),
    ("maxLength", 11, Kind::Whole),
    ("minLength", 12, Kind::Whole),
    ("pattern", 13, Kind::Text),
    ("maxItems", 14, Kind::Whole),
    ("minItems", 15, Kind::Whole),
    ("uniqueItems", 16, Kind::Bool),
    ("maxProperties", 17, Kind::Whole),
    ("minProperties", 18, Kind::Whole),
    ("required", 19, Kind::Texts),
    ("enum", 20, Kind::Anys),
    ("additionalProperties", 21, Kind::Special(additional_properties)),
    ("type", 22, Kind::Special(type_item)),
    ("items", 23, Kind::Special(items_item)),
    ("allOf", 24, Kind::Specials(schema)),
    ("properties", 25, Kind::Special(schemas)),
    ("example", 30, Kind::Any),
    (EXTENSIONS, 31, Kind::Any),
];
const BODY_PARAMETER: &[Member] = &[
    ("description", 1, Kind::Text),
    ("name", 2, Kind::Text),
    ("in", 3, Kind::Text),
    ("required", 4, Kind::Bool),
    ("schema", 5, Kind::Special(schema)),
];
const QUERY_PARAMETER: &[Member] = &[
    ("required", 1, Kind::Bool),
    ("in", 2, Kind::Text),
    ("description", 3, Kind::Text),
    ("name", 4, Kind::Text),
    ("type", 6, Kind::Text),
    ("format", 7, Kind::Text),
    ("uniqueItems", 20, Kind::Bool),
];
const PATH_PARAMETER: &[Member] = &[
    ("required", 1, Kind::Bool),
    ("in", 2, Kind::Text),
    ("description", 3, Kind::Text),
    ("name", 4, Kind::Text),
    ("type", 5, Kind::Text),
    ("format", 6, Kind::Text),
    ("uniqueItems", 19, Kind::Bool),
];
const RESPONSE: &[Member] =
    &[("description", 1, Kind::Text), ("schema", 2, Kind::Special(schema_item)), (EXTENSIONS, 5, Kind::Any)];
const API_KEY: &[Member] = &[
    ("type", 1, Kind::Text),
    ("name", 2, Kind::Text),
    ("in", 3, Kind::Text),
    ("description", 4, Kind::Text),
];
const REFERENCE: &[Member] = &[("$ref", 1, Kind::Text), ("description", 2, Kind::Text)];

/// The place of all members that begin with `x-`.
const EXTENSIONS: &str = "x-";

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    varint(out, u64::from(number) << 3 | 2);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

fn wrapped(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    bytes(&mut out, number, content);
    out
}

fn message(value: &Value, members: &[Member]) -> Vec<u8> {
    let mut out = Vec::new();
    let Value::Object(object) = value else { return out };
    for (name, number, kind) in members {
        if *name == EXTENSIONS {
            for (name, value) in object.iter().filter(|(name, _)| name.starts_with(EXTENSIONS)) {
                bytes(&mut out, *number, &named(name, &any(value)));
            }
        } else if let Some(value) = object.get(*name) {
            member(&mut out, *number, kind, value);
        }
    }
    out
}

fn member(out: &mut Vec<u8>, number: u32, kind: &Kind, value: &Value) {
    let items = || value.as_array().map_or(&[][..], Vec::as_slice);
    match kind {
        Kind::Text => bytes(out, number, value.as_str().unwrap_or_default().as_bytes()),
        Kind::Bool => {
            varint(out, u64::from(number) << 3);
            out.push(value.as_bool().unwrap_or_default().into());
        }
        Kind::Whole => {
            varint(out, u64::from(number) << 3);
            varint(out, value.as_i64().unwrap_or_default().cast_unsigned());
        }
        Kind::Number => {
            varint(out, u64::from(number) << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_bits().to_le_bytes());
        }
        Kind::Texts => {
            items().iter().for_each(|item| bytes(out, number, item.as_str().unwrap_or_default().as_bytes()));
        }
        Kind::Any => bytes(out, number, &any(value)),
        Kind::Anys => items().iter().for_each(|item| bytes(out, number, &any(item))),
        Kind::Message(members) => bytes(out, number, &message(value, members)),
        Kind::Special(special) => bytes(out, number, &special(value)),
        Kind::Specials(special) => items().iter().for_each(|item| bytes(out, number, &special(item))),
    }
}

/// JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    wrapped(2, value.to_string().as_bytes())
}

fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut out = wrapped(1, name.as_bytes());
    bytes(&mut out, 2, value);
    out
}

fn pairs(value: &Value, number: u32, each: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
    let none = Map::new();
    let mut out = Vec::new();
    for (name, value) in value.as_object().unwrap_or(&none) {
        bytes(&mut out, number, &named(name, &each(value)));
    }
    out
}

fn paths(value: &Value) -> Vec<u8> {
    pairs(value, 2, |item| message(item, PATH_ITEM))
}

fn responses(value: &Value) -> Vec<u8> {
    pairs(value, 1, |item| wrapped(1, &message(item, RESPONSE)))
}

fn parameter_definitions(value: &Value) -> Vec<u8> {
    pairs(value, 1, parameter)
}

fn parameter(value: &Value) -> Vec<u8> {
    match value["in"].as_str() {
        Some("body") => wrapped(1, &message(value, BODY_PARAMETER)),
        Some("path") => wrapped(2, &wrapped(4, &message(value, PATH_PARAMETER))),
        _ => wrapped(2, &wrapped(3, &message(value, QUERY_PARAMETER))),
    }
}

fn parameters_item(value: &Value) -> Vec<u8> {
    if value.get("$ref").is_some() {
        return wrapped(2, &message(value, REFERENCE));
    }
    wrapped(1, &parameter(value))
}

fn security_requirement(value: &Value) -> Vec<u8> {
    pairs(value, 1, |scopes| {
        let mut out = Vec::new();
        member(&mut out, 1, &Kind::Texts, scopes);
        out
    })
}

fn security_definitions(value: &Value) -> Vec<u8> {
    pairs(value, 1, |item| wrapped(2, &message(item, API_KEY)))
}

fn schema(value: &Value) -> Vec<u8> {
    message(value, SCHEMA)
}

fn schemas(value: &Value) -> Vec<u8> {
    pairs(value, 1, schema)
}

fn schema_item(value: &Value) -> Vec<u8> {
    wrapped(1, &message(value, SCHEMA))
}

fn additional_properties(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(allowed) => vec![2 << 3, u8::from(*allowed)],
        schema => wrapped(1, &message(schema, SCHEMA)),
    }
}

fn type_item(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Array(_) => member(&mut out, 1, &Kind::Texts, value),
        one => member(&mut out, 1, &Kind::Text, one),
    }
    out
}

fn items_item(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match value {
        Value::Array(_) => member(&mut out, 1, &Kind::Specials(schema), value),
        one => member(&mut out, 1, &Kind::Message(SCHEMA), one),
    }
    out
}
