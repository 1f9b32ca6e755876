//! ConfigMaps and Secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::check::Causes;
use super::meta::IMMUTABLE;
use crate::access::{at, entries, text, truth};
use crate::strategy::semantically_equal;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;

/// The message for a change to an immutable ConfigMap or Secret.
pub const FROZEN: &str = "field is immutable when `immutable` is set";

/// Maximum number of bytes in one object.
const DATA_MAX: usize = 1024 * 1024;

pub(super) fn config_map(causes: &mut Causes, map: &Value) {
    let mut size = 0;
    for (key, value) in entries(map, "data") {
        let path = Path::new("data").key(key);
        causes.wrong(&path, key, &name::config_map_key(key));
        if at(map, "binaryData").get(key).is_some() {
            causes.invalid(&path, key, "duplicate of key present in binaryData");
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(map, "binaryData") {
        causes.wrong(&Path::new("binaryData").key(key), key, &name::config_map_key(key));
        size += decoded_length(value);
    }
    if size > DATA_MAX {
        // The real server's path of an empty name prints like an empty list.
        causes.push(Cause::too_long(&Path::new("[]"), DATA_MAX));
    }
}

fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count()
}

pub(super) fn config_map_update(causes: &mut Causes, map: &Value, old: &Value) {
    frozen(causes, map, old, &["data", "binaryData"]);
    config_map(causes, map);
}

/// Checks that an immutable object stays immutable and keeps its data.
fn frozen(causes: &mut Causes, new: &Value, old: &Value, fields: &[&str]) {
    if !truth(old, "immutable") {
        return;
    }
    if !truth(new, "immutable") {
        causes.forbidden(&Path::new("immutable"), FROZEN);
    }
    for field in fields {
        let same =
            semantically_equal(at(new, field), at(old, field)) || (empty(new, field) && empty(old, field));
        if !same {
            causes.forbidden(&Path::new(*field), FROZEN);
        }
    }
}

fn empty(value: &Value, field: &str) -> bool {
    crate::access::is_empty(value, field)
}

pub(super) fn secret(causes: &mut Causes, secret: &Value) {
    let data = Path::new("data");
    let mut size = 0;
    for (key, value) in entries(secret, "data") {
        causes.wrong(&data.key(key), key, &name::config_map_key(key));
        size += decoded_length(value);
    }
    if size > DATA_MAX {
        causes.push(Cause::too_long(&data, DATA_MAX));
    }
    let must = |causes: &mut Causes, keys: &[&str]| {
        for key in keys.iter().filter(|key| at(secret, "data").get(**key).is_none()) {
            causes.required(&data.key(key), "");
        }
    };
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            const NAME: &str = "kubernetes.io/service-account.name";
            let name = at(secret, "metadata.annotations").get(NAME).and_then(Value::as_str);
            if name.is_none_or(str::is_empty) {
                causes.required(&Path::new("metadata.annotations").key(NAME), "");
            }
        }
        "kubernetes.io/dockercfg" => docker(causes, secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker(causes, secret, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" => {
            let known = |key: &str| at(secret, "data").get(key).is_some();
            if !known("username") && !known("password") {
                must(causes, &["username", "password"]);
            }
        }
        "kubernetes.io/ssh-auth" => must(causes, &["ssh-privatekey"]),
        "kubernetes.io/tls" => must(causes, &["tls.crt", "tls.key"]),
        _ => {}
    }
}

fn docker(causes: &mut Causes, secret: &Value, key: &str) {
    let path = Path::new("data").key(key);
    let Some(encoded) = at(secret, "data").get(key).and_then(Value::as_str) else {
        return causes.required(&path, "");
    };
    let bytes = STANDARD.decode(encoded).unwrap_or_default();
    if let Some(why) = json_error(&bytes) {
        causes.invalid(&path, "<secret contents redacted>", &why);
    }
}

/// Why bytes are no JSON object, in Go's words for the common cases.
fn json_error(bytes: &[u8]) -> Option<String> {
    let error = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => return None,
        Ok(other) => {
            let kind = match other {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                _ => "array",
            };
            return Some(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            ));
        }
        Err(error) => error,
    };
    if bytes.iter().all(u8::is_ascii_whitespace) || error.is_eof() {
        return Some("unexpected end of JSON input".to_owned());
    }
    let text = String::from_utf8_lossy(bytes);
    for literal in ["null", "true", "false"] {
        let same = text.bytes().zip(literal.bytes()).take_while(|(a, b)| a == b).count();
        if (1..literal.len()).contains(&same)
            && let Some(found) = text[same..].chars().next()
        {
            let expected = &literal[same..=same];
            return Some(format!(
                "invalid character '{found}' in literal {literal} (expecting '{expected}')"
            ));
        }
    }
    let found = text.trim_start().chars().next().unwrap_or_default();
    Some(format!("invalid character '{found}' looking for beginning of value"))
}

pub(super) fn secret_update(causes: &mut Causes, new: &Value, old: &Value) {
    let kind = text(new, "type");
    if kind != text(old, "type") {
        causes.invalid(&Path::new("type"), kind, IMMUTABLE);
    }
    frozen(causes, new, old, &["data"]);
    secret(causes, new);
}
