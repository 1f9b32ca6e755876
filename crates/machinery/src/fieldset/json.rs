//! The `FieldsV1` form: nested objects whose names carry the kind of path element.

use std::sync::Arc;

use serde_json::{Map, Value};
use setpoint_api::go_format;

use super::{Entry, FieldSet, PathElement};

/// Why a `FieldsV1` value does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A nested value is no object.
    #[error("expected a map in FieldsV1, got {0}")]
    NotAMap(&'static str),
    /// A name is too short to carry a kind.
    #[error("key must be 2 characters long: {0:?}")]
    ShortKey(String),
    /// A name has no colon after its kind.
    #[error("missing colon: {0}")]
    MissingColon(String),
    /// The part after the kind does not parse.
    #[error("invalid path element {0:?}")]
    Malformed(String),
}

impl FieldSet {
    /// Reads `FieldsV1`. Kinds of path element that nobody knows are dropped.
    pub fn from_fields_v1(fields: &Value) -> Result<FieldSet, FieldsError> {
        match fields {
            Value::Object(map) => Ok(read_level(map)?.0),
            Value::Null => Ok(FieldSet::new()),
            other => Err(FieldsError::NotAMap(go_format::type_name(other))),
        }
    }

    /// Writes `FieldsV1` as a value.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write_level(false))
    }

    fn write_level(&self, include_self: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if include_self && !self.is_empty() {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for entry in &self.entries {
            let below = entry.children.write_level(entry.member);
            map.insert(element_name(&entry.element), Value::Object(below));
        }
        map
    }

    /// Writes `FieldsV1` as text in Go's canonical order.
    pub fn to_fields_v1_text(&self) -> String {
        let mut out = String::new();
        self.write_text(false, &mut out);
        out
    }

    fn write_text(&self, include_self: bool, out: &mut String) {
        out.push('{');
        let mut first = true;
        if include_self && !self.is_empty() {
            out.push_str("\".\":{}");
            first = false;
        }
        for entry in &self.entries {
            if !first {
                out.push(',');
            }
            first = false;
            out.push_str(&go_format::json(&Value::String(element_name(&entry.element))));
            out.push(':');
            entry.children.write_text(entry.member, out);
        }
        out.push('}');
    }
}

/// The set below one name and whether that name is itself a member.
fn read_level(map: &Map<String, Value>) -> Result<(FieldSet, bool), FieldsError> {
    let mut entries: Vec<Entry> = Vec::with_capacity(map.len());
    let mut member = map.is_empty();
    for (name, below) in map {
        if name == "." {
            member = true;
            continue;
        }
        let Some(element) = parse_element(name)? else { continue };
        let Value::Object(below) = below else {
            return Err(FieldsError::NotAMap(go_format::type_name(below)));
        };
        let (children, is_member) = read_level(below)?;
        let is_member = is_member || children.is_empty();
        entries.push(Entry { element, member: is_member, children });
    }
    // Sorted once: the order of the names is not that of what they name. Of doubles the last one's children count.
    entries.sort_by(|left, right| left.element.cmp(&right.element));
    entries.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            earlier.member |= later.member;
            earlier.children = std::mem::take(&mut later.children);
        }
        same
    });
    Ok((FieldSet { entries }, member))
}

/// Reads one name; none for a kind that nobody knows.
pub(crate) fn parse_element(name: &str) -> Result<Option<PathElement>, FieldsError> {
    let malformed = || FieldsError::Malformed(name.into());
    let Some((kind, rest)) = name.split_at_checked(2) else {
        return Err(FieldsError::ShortKey(name.into()));
    };
    if !kind.ends_with(':') {
        return Err(FieldsError::MissingColon(name.into()));
    }
    Ok(Some(match kind {
        "f:" => PathElement::field(rest),
        "v:" => PathElement::Value(Arc::new(serde_json::from_str(rest).map_err(|_| malformed())?)),
        "i:" => PathElement::Index(rest.parse().map_err(|_| malformed())?),
        "k:" => {
            let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| malformed())?;
            PathElement::Key(fields.into_iter().map(|(name, value)| (Arc::from(name), value)).collect())
        }
        _ => return Ok(None),
    }))
}

/// Writes one name.
pub(crate) fn element_name(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Value(value) => format!("v:{}", go_format::json(value)),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Key(fields) => {
            let mut out = String::from("k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&go_format::json(&Value::String(name.to_string())));
                out.push(':');
                out.push_str(&go_format::json(value));
            }
            out.push('}');
            out
        }
    }
}
