//! Request bodies: read within the limit, decoded from their format.

use std::borrow::Cow;
use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::object::READABLE;
use crate::yaml::YamlError;

/// The error of a body while it is read or written.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of requests and answers.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The longest request body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Reads a body. Refuses one longer than [`MAX_BODY`]. A body that takes too long ends with its request's deadline.
pub async fn read(mut body: Body) -> Result<Bytes, ApiError> {
    let mut first: Option<Bytes> = None;
    let mut rest: Option<BytesMut> = None;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::bad_request(format!("reading the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > MAX_BODY {
            return Err(ApiError::too_large(MAX_BODY));
        }
        match (&mut first, &mut rest) {
            (None, _) => first = Some(data),
            (Some(head), None) => {
                let mut joined = BytesMut::with_capacity(length * 2);
                joined.extend_from_slice(head);
                joined.extend_from_slice(&data);
                rest = Some(joined);
            }
            (Some(_), Some(joined)) => joined.extend_from_slice(&data),
        }
    }
    Ok(rest.map(BytesMut::freeze).or(first).unwrap_or_default())
}

/// The stack for the deepest YAML document, with frames as large as in a build without optimisation.
const YAML_STACK: usize = 64 * 1024 * 1024;

/// Reads YAML as Go's reader does: the last value of a doubled key counts. The reader recurses with large frames, so
/// it runs on a stack of its own: a deep document must not end the process.
fn read_yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_depth = READABLE;
    budget.flow_nesting_limit = READABLE;
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        budget: Some(budget),
    };
    let read = || {
        serde_saphyr::from_str_with_options(text, options.clone()).or_else(|error| {
            // As in Go, only the first document counts, whatever follows it.
            let mut bytes = text.as_bytes();
            let first = serde_saphyr::read_with_options(&mut bytes, options).next();
            first.and_then(Result::ok).ok_or_else(|| YamlError(error.to_string()))
        })
    };
    stacker::grow(YAML_STACK, read)
}

/// Reads JSON text. The flag says whether an object in it has a doubled key.
pub fn json_with_doubled(bytes: &[u8]) -> serde_json::Result<(Value, bool)> {
    let doubled = Cell::new(false);
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let value = Noting(&doubled).deserialize(&mut text)?;
    text.end()?;
    Ok((value, doubled.get()))
}

/// Builds the value that serde_json builds, and notes doubled keys.
struct Noting<'n>(&'n Cell<bool>);

impl<'de> DeserializeSeed<'de> for Noting<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Noting<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let before = fields.insert(key, map.next_value_seed(Noting(self.0))?);
            self.0.set(self.0.get() || before.is_some());
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Noting(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The errors of Go's strict reader for doubled keys in a YAML text. Errors below a value come first, and the line is
/// that of the value.
pub fn doubled_keys(bytes: &[u8]) -> Vec<String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    read_yaml::<Doubled>(text).map(|doubled| doubled.0).unwrap_or_default()
}

/// The doubled keys of a document.
struct Doubled(Vec<String>);

impl<'de> Deserialize<'de> for Doubled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Below)
    }
}

struct Below;

impl<'de> Visitor<'de> for Below {
    type Value = Doubled;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Doubled, A::Error> {
        let (mut found, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value::<serde_saphyr::Spanned<Doubled>>()?;
            found.extend(value.value.0);
            if !seen.insert(key.clone()) {
                let line = value.referenced.line();
                found.push(format!(
                    "line {line}: key {} already set in map",
                    setpoint_api::go_format::quote(&key)
                ));
            }
        }
        Ok(Doubled(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Doubled, A::Error> {
        let mut found = Vec::new();
        while let Some(item) = list.next_element::<Doubled>()? {
            found.extend(item.0);
        }
        Ok(Doubled(found))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }

    fn visit_str<E>(self, _: &str) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }

    fn visit_unit<E>(self) -> Result<Doubled, E> {
        Ok(Doubled(Vec::new()))
    }
}

/// YAML as JSON text. Clients mostly send JSON, which stays as it is. A body in braces that is neither is returned too:
/// its error is that of JSON.
pub fn yaml_to_json(bytes: &[u8]) -> Result<Cow<'_, [u8]>, YamlError> {
    let in_braces = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if in_braces && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Ok(Cow::Borrowed(bytes));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| YamlError(error.to_string()))?;
    match read_yaml::<Value>(text) {
        Ok(value) => Ok(Cow::Owned(value.to_string().into_bytes())),
        Err(_) if in_braces => Ok(Cow::Borrowed(bytes)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_serde_makes_of_it_and_doubled_keys_are_noticed() {
        let text =
            br#"{"a":[1,-2,3.5,1e3,18446744073709551615,true,null,"\u00e9\n"],"b":{"a":{},"c":[{"d":1}]}}"#;
        assert_eq!(json_with_doubled(text).unwrap(), (serde_json::from_slice(text).unwrap(), false));
        let (value, doubled) = json_with_doubled(br#"{"a":[{"b":1,"\u0062":2}]}"#).unwrap();
        assert_eq!((value, doubled), (serde_json::json!({"a": [{"b": 2}]}), true));
        for wrong in ["", "{", "{} {}", "{1:2}"] {
            let error = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_err().to_string();
            assert_eq!(json_with_doubled(wrong.as_bytes()).unwrap_err().to_string(), error(wrong.as_bytes()));
        }
    }

    /// As kube-apiserver 1.37 read these bodies of an apply.
    #[test]
    fn yaml_in_flow_style_is_read() {
        let read = |text: &str| -> Value {
            serde_json::from_slice(&yaml_to_json(text.as_bytes()).unwrap()).unwrap()
        };
        let a = serde_json::json!({"m": {"name": "f"}, "data": {"a": "b"}});
        for text in [
            "{m: {name: f}, data: {a: b}}",
            "{m: {name: f,}, data: {a: b,},}",
            "{\"m\":{\"name\":\"f\"},\"data\":{\"a\":\"b\"},}",
            "m: {name: f, } # c\ndata:\n  a: \"b\"\n",
            "# c\n{m: {name: f}, # c\n data: {a: b}}\n",
            "{ m : { name : f } , data : { a : b } }",
            "{m: {name: f}, data: {a: c, a: b}}",
            "---\nm: {name: f}\ndata: {a: b}\n---\nother: 1\n",
            "{m: {name: f}, data: {a: b}}\n---\n{x: y}",
            "{m: {name: f}, data: {a: b}}\n...\n",
        ] {
            assert_eq!(read(text), a, "{text}");
        }
        let odd = "{a: http://x/y, b: c#d, l: [x, ], n: , t: ~, s: 'it''s', d: \"x\n  y\"}";
        let expected = serde_json::json!({"a": "http://x/y", "b": "c#d", "l": ["x"], "n": null, "t": null,
            "s": "it's", "d": "x y"});
        assert_eq!(read(odd), expected);
        // The error of a body that is neither is the one of JSON.
        assert_eq!(yaml_to_json(b"{a: [}").unwrap(), &b"{a: [}"[..]);
        assert!(yaml_to_json(b"a: [").is_err());
    }

    #[test]
    fn doubled_keys_come_as_go_finds_them() {
        let text = "a: 1\nb:\n  c:\n    d: 1\n  c:\n    d: 2\n    d: 3\na:\n  x: 1\nl:\n- e: 1\n  e: 2\n";
        let found = doubled_keys(text.as_bytes());
        let expected = [
            "line 7: key \"d\" already set in map",
            "line 6: key \"c\" already set in map",
            "line 9: key \"a\" already set in map",
            "line 12: key \"e\" already set in map",
        ];
        assert_eq!(found, expected);
    }
}
