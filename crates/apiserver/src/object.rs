//! Objects as JSON values, and their stored bytes.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use setpoint_api::clock;

/// `metadata` of an object, created if it is missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let fields = object.as_object_mut().expect("made an object just now");
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("made an object just now")
}

/// A text of `metadata`, or empty.
pub fn meta_text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or("")
}

/// Sets a text of `metadata`; an empty one removes it.
pub fn set_meta_text(object: &mut Value, field: &str, text: &str) {
    if text.is_empty() {
        metadata_mut(object).remove(field);
    } else {
        metadata_mut(object).insert(field.to_owned(), json!(text));
    }
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    meta_text(object, "name")
}

/// Whether deletion has begun.
pub fn is_terminating(object: &Value) -> bool {
    !meta_text(object, "deletionTimestamp").is_empty()
}

/// Begins the deletion of an object that has that many seconds left.
pub fn begin_deletion(object: &mut Value, grace: i64, now: jiff::Timestamp) {
    set_deletion(object, grace, now);
    let metadata = metadata_mut(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        metadata.insert("generation".into(), json!(generation + 1));
    }
}

/// Sets when a deletion ends.
pub fn set_deletion(object: &mut Value, grace: i64, now: jiff::Timestamp) {
    // Any number of seconds is a grace period, even one beyond the calendar.
    let ends = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(jiff::Timestamp::MAX);
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".into(), json!(clock::rfc3339_seconds(ends)));
    metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
}

/// The deepest nesting that serde_json reads, and with it every client in Rust.
pub const READABLE: usize = 127;

/// The deepest nesting of an object. A list nests its objects two levels deeper.
pub const MAX_DEPTH: usize = READABLE - 2;

/// The number of lists and maps that are nested in each other.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// An object as it is stored, except for its own revision.
#[derive(Clone, Debug)]
pub struct Encoded {
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Encoded {
    /// Encodes an object. Stored and answered JSON begins with kind, apiVersion and metadata and ends with a newline,
    /// as Go's encoder writes it. Readers find metadata early, and answers need no copy.
    pub fn new(object: &Value) -> Self {
        let mut before = Vec::with_capacity(512);
        before.push(b'{');
        for field in ["kind", "apiVersion"] {
            if let Some(value) = object.get(field) {
                field_into(&mut before, field, value);
            }
        }
        before.extend_from_slice(b"\"metadata\":{");
        let empty = Map::new();
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        for (field, value) in metadata.iter().filter(|(field, _)| field.as_str() < "resourceVersion") {
            field_into(&mut before, field, value);
        }
        before.extend_from_slice(b"\"resourceVersion\":\"");
        let mut after = vec![b'"'];
        for (field, value) in metadata.iter().filter(|(field, _)| field.as_str() > "resourceVersion") {
            after.push(b',');
            field_into(&mut after, field, value);
            after.pop();
        }
        after.push(b'}');
        for (field, value) in object.as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
                after.push(b',');
                field_into(&mut after, field, value);
                after.pop();
            }
        }
        after.extend_from_slice(b"}\n");
        Encoded { before, after }
    }

    /// An encoded object from its text before and after the revision: the same bytes as from [`Encoded::new`].
    pub(crate) fn from_parts(before: String, after: String) -> Self {
        Encoded { before: before.into_bytes(), after: after.into_bytes() }
    }

    /// The length without a revision.
    pub(crate) fn len(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// The bytes with their revision in place.
    pub fn at(mut self, revision: u64) -> Bytes {
        let revision = revision.to_string();
        // Reserves exactly: the stored bytes live long, and so would the spare room from growing by doubling.
        self.before.reserve_exact(revision.len() + self.after.len());
        self.before.extend_from_slice(revision.as_bytes());
        self.before.extend_from_slice(&self.after);
        self.before.into()
    }
}

fn field_into(out: &mut Vec<u8>, field: &str, value: &Value) {
    serde_json::to_writer(&mut *out, field).expect("writing to memory");
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("writing to memory");
    out.push(b',');
}

/// JSON with kind, apiVersion and metadata first, as Go's encoder begins objects.
pub fn ordered(object: &Value) -> Vec<u8> {
    let Value::Object(fields) = object else {
        return serde_json::to_vec(object).expect("a value is always JSON");
    };
    let first = ["kind", "apiVersion", "metadata"];
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    for field in first {
        if let Some(value) = fields.get(field) {
            field_into(&mut out, field, value);
        }
    }
    for (field, value) in fields.iter().filter(|(field, _)| !first.contains(&field.as_str())) {
        field_into(&mut out, field, value);
    }
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'}');
    out
}

/// Compact JSON, indented by two spaces a level for people.
pub fn indented(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    let mut bytes = compact.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                if matches!(bytes.peek(), Some(b'}' | b']')) {
                    out.extend(bytes.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            other => out.push(other),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

/// The stored bytes without their newline.
pub fn trimmed(bytes: &Bytes) -> Bytes {
    match bytes.last() {
        Some(b'\n') => bytes.slice(..bytes.len() - 1),
        _ => bytes.clone(),
    }
}

/// Stored bytes of one version of a custom resource as another version. `None` if the bytes do not begin as the
/// server writes objects.
pub fn with_api_version(bytes: &Bytes, from: &str, to: &str) -> Option<Bytes> {
    const FIELD: &[u8] = b"\"apiVersion\":\"";
    let at = memchr::memmem::find(bytes.get(..512.min(bytes.len()))?, FIELD)? + FIELD.len();
    if !bytes[at..].starts_with(from.as_bytes()) {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len() + to.len());
    out.extend_from_slice(&bytes[..at]);
    out.extend_from_slice(to.as_bytes());
    out.extend_from_slice(&bytes[at + from.len()..]);
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_carry_their_revision_and_nothing_else_changes() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": "x", "resourceVersion": "old", "uid": "u", "labels": {"l": "m"}}});
        let bytes = Encoded::new(&object).at(42);
        assert!(bytes.starts_with(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#));
        assert!(bytes.ends_with(b"}\n"));
        let mut expected = object.clone();
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
        let bare = Encoded::new(&json!({"kind": "X"})).at(1);
        assert_eq!(bare, Bytes::from("{\"kind\":\"X\",\"metadata\":{\"resourceVersion\":\"1\"}}\n"));
    }

    #[test]
    fn versions_are_exchanged_in_place() {
        let bytes = Encoded::new(&json!({"kind": "X", "apiVersion": "g/v1"})).at(1);
        let other = with_api_version(&bytes, "g/v1", "g/v2beta1").unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&other).unwrap()["apiVersion"], "g/v2beta1");
    }
}
