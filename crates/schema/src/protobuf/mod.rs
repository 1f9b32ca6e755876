//! Kubernetes' protobuf: the envelope, and messages to and from JSON values by the schema table. There is no code
//! per kind.
//!
//! Decoding gives the object as Go would print it in JSON; encoding writes the bytes that Go would write.

mod decode;
mod encode;
mod back;
mod envelope;
mod transcode;
mod layout;
mod forward;
mod wire;

pub use decode::decode_message;
pub use encode::encode_message;
pub use envelope::{Envelope, MAGIC, open, seal};
pub use transcode::{transcode_into, transcode_message};

use serde_json::Value;

use crate::{Schema, builtin};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Objects, lists and maps within each other, as JSON counts them. Deeper messages are refused: decoding recurses.
const DEPTH: usize = 120;

/// Why bytes are not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No bytes at all.
    #[error("empty data")]
    Empty,
    /// The magic prefix is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Nothing but the prefix.
    #[error("empty body")]
    EmptyBody,
    /// A message ends before its content.
    #[error("unexpected EOF")]
    Truncated,
    /// A number that does not fit.
    #[error("proto: integer overflow")]
    Overflow,
    /// A tag that no message has.
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag {
        /// The field number.
        number: u64,
        /// The wire type.
        wire: u8,
    },
    /// A field with the encoding of another type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    Wire {
        /// The JSON name.
        field: String,
        /// The wire type.
        wire: u8,
    },
    /// Messages within each other beyond the bound.
    #[error("proto: exceeded max depth")]
    Depth,
    /// A value that the type refuses.
    #[error("{0}")]
    Value(String),
    /// The type has no protobuf form.
    #[error(
        "object does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message: {0}"
    )]
    NoForm(String),
    /// The table does not have the kind.
    #[error(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )]
    Kind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
}

/// Why an object is not bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The text is not JSON.
    #[error("{0}")]
    Malformed(String),
    /// The type has no protobuf form.
    #[error(
        "object does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message: {0}"
    )]
    NoForm(String),
    /// A value is not of its type.
    #[error("field {field}: the value does not fit its type {ty}")]
    Value {
        /// The JSON name.
        field: String,
        /// Go's spelling of the type.
        ty: String,
    },
    /// The table does not have the kind.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
}

/// The schema of a kind by its `apiVersion`. The oldest discovery answers have none.
fn schema_of(api_version: &str, kind: &str) -> Option<&'static Schema> {
    let api_version = if api_version.is_empty() { "v1" } else { api_version };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin().kind(group, version, kind)
}

/// Decodes an envelope with an object of a built-in kind. The value has the envelope's `apiVersion` and `kind`.
///
/// # Errors
/// When the bytes are malformed or the kind is not known.
pub fn decode(data: &[u8]) -> Result<Value, DecodeError> {
    let envelope = open(data)?;
    let value = decode_message(envelope.raw, known(&envelope)?)?;
    Ok(stamped(value, envelope))
}

/// As [`decode`], as reading the JSON of the object gives it: a pointer to a zero time is none. An envelope that does not
/// say what it holds holds that kind.
///
/// # Errors
/// When the bytes are malformed or the kind is not known.
pub fn decode_as(data: &[u8], api_version: &str, kind: &str) -> Result<Value, DecodeError> {
    let mut envelope = open(data)?;
    for (said, usual) in [(&mut envelope.api_version, api_version), (&mut envelope.kind, kind)] {
        if said.is_empty() {
            usual.clone_into(said);
        }
    }
    let value = decode::read_message(envelope.raw, known(&envelope)?)?;
    Ok(stamped(value, envelope))
}

/// The schema of what an envelope says that it holds.
fn known(envelope: &Envelope<'_>) -> Result<&'static Schema, DecodeError> {
    schema_of(&envelope.api_version, &envelope.kind).ok_or_else(|| DecodeError::Kind {
        api_version: envelope.api_version.clone(),
        kind: envelope.kind.clone(),
    })
}

fn stamped(mut value: Value, envelope: Envelope<'_>) -> Value {
    if let Value::Object(map) = &mut value {
        for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
            if !text.is_empty() {
                map.insert(name.to_owned(), Value::String(text));
            }
        }
    }
    value
}

/// Encodes an object of a built-in kind, with its envelope.
///
/// ```
/// use serde_json::json;
/// use setpoint_schema::protobuf::{decode, encode};
/// let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
/// assert_eq!(decode(&encode(&object).unwrap()).unwrap(), object);
/// ```
///
/// # Errors
/// When the kind is not known or has no protobuf form, or a value does not fit its type.
pub fn encode(value: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let schema = schema_of(api_version, kind)
        .ok_or_else(|| EncodeError::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    Ok(seal(api_version, kind, &encode_message(value, schema)?))
}

/// Encodes the JSON text of an object of a built-in kind, with its envelope. The text must be what reading gave.
///
/// # Errors
/// When the kind is not known or has no protobuf form, or the text does not fit its type.
pub fn transcode(json: &[u8], api_version: &str, kind: &str) -> Result<Vec<u8>, EncodeError> {
    let schema = schema_of(api_version, kind)
        .ok_or_else(|| EncodeError::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() })?;
    Ok(seal(api_version, kind, &transcode_message(json, schema)?))
}

/// A list from items that are messages already (without envelopes), as they were encoded once for all readers.
///
/// # Errors
/// When the metadata does not fit its type.
pub fn encode_list<'a>(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: impl Iterator<Item = &'a [u8]> + Clone,
) -> Result<Vec<u8>, EncodeError> {
    let length = items.clone().map(|item| envelope::delimited(item.len())).sum();
    let mut out = open_list(api_version, kind, metadata, length)?;
    out.reserve(length + LIST_END.len());
    for item in items {
        push_item(&mut out, item);
    }
    out.extend_from_slice(&LIST_END);
    Ok(out)
}

/// Returns the bytes before the items of a list. The items, as [`push_item`] writes them, have `length` bytes
/// together.
///
/// # Errors
/// When the metadata does not fit its type.
pub fn open_list(
    api_version: &str,
    kind: &str,
    metadata: &Value,
    length: usize,
) -> Result<Vec<u8>, EncodeError> {
    let unknown = || EncodeError::Kind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let schema = schema_of(api_version, kind).ok_or_else(unknown)?;
    let meta = encode_message(metadata, &schema.child("metadata").ok_or_else(unknown)?)?;
    let mut out = Vec::new();
    envelope::open_envelope(&mut out, api_version, kind, envelope::delimited(meta.len()) + length);
    out.push(0x0a);
    envelope::varint(&mut out, meta.len());
    out.extend_from_slice(&meta);
    Ok(out)
}

/// How long an item is in a list.
pub fn item_length(item: &[u8]) -> usize {
    envelope::delimited(item.len())
}

/// An item of a list.
pub fn push_item(out: &mut Vec<u8>, item: &[u8]) {
    out.push(0x12);
    envelope::varint(out, item.len());
    out.extend_from_slice(item);
}

/// The bytes behind the items of a list.
pub const LIST_END: [u8; 4] = envelope::TAIL;

/// One event of a watch: four bytes of length, then the event with the object in its envelope.
pub fn watch_frame(event: &str, object: &[u8]) -> Vec<u8> {
    let mut out = open_frame(event, object.len());
    out.extend_from_slice(object);
    out
}

/// Everything of a watch event that stands before an object of that length.
fn open_frame(event: &str, object: usize) -> Vec<u8> {
    let raw = envelope::delimited(object);
    let length = envelope::delimited(event.len()) + envelope::delimited(raw);
    let mut out = Vec::with_capacity(4 + length);
    out.extend_from_slice(&u32::try_from(length).expect("an event is shorter than 4 GiB").to_be_bytes());
    out.push(0x0a);
    envelope::varint(&mut out, event.len());
    out.extend_from_slice(event.as_bytes());
    out.push(0x12);
    envelope::varint(&mut out, raw);
    out.push(0x0a);
    envelope::varint(&mut out, object);
    out
}

#[cfg(test)]
mod tests;
