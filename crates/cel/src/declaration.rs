//! The sizes that a schema declares, as kube-apiserver reads them.

use std::collections::BTreeMap;

use setpoint_machinery::structural::Props;

use super::size::{Place, Size};
use super::ty::{declares_metadata, escape};

/// The longest request.
pub(super) const REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The longest `metadata.name`.
const NAME_LENGTH: i64 = 253;

/// A value that a schema describes.
#[derive(Clone, Debug)]
pub(super) struct Declaration {
    /// The most letters, bytes, items or entries. Zero for what has no size.
    pub(super) most: u64,
    /// The fewest bytes of JSON.
    least: u64,
    pub(super) below: Below,
}

#[derive(Clone, Debug)]
pub(super) enum Below {
    Fields(BTreeMap<String, Declaration>),
    Items(Box<Declaration>),
    Values(Box<Declaration>),
    Nothing,
}

/// A key of a map.
const KEY: &Declaration = &Declaration { most: 0, least: 2, below: Below::Nothing };

fn scalar(most: u64, least: u64) -> Declaration {
    Declaration { most, least, below: Below::Nothing }
}

fn count(most: Option<i64>) -> Option<u64> {
    most.map(|most| u64::try_from(most).unwrap_or(0))
}

impl Declaration {
    /// The declaration that a schema makes, or `None` if expressions cannot see such values.
    pub(super) fn of(props: &Props, is_resource: bool) -> Option<Declaration> {
        if props.int_or_string {
            return Some(scalar(text(props), 1));
        }
        match props.kind.as_str() {
            "array" => {
                let items = props.items.as_deref()?;
                let item = Declaration::of(items, items.embedded_resource)?;
                let most = count(props.max_items).unwrap_or((REQUEST_BYTES - 2) / (item.least + 1));
                Some(Declaration { most, least: 2, below: Below::Items(Box::new(item)) })
            }
            "object" => match props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
                Some(schema) => {
                    let value = Declaration::of(schema, schema.embedded_resource)?;
                    let most = count(props.max_properties).unwrap_or((REQUEST_BYTES - 2) / (value.least + 6));
                    Some(Declaration { most, least: 2, below: Below::Values(Box::new(value)) })
                }
                None => Some(object(props, is_resource)),
            },
            "string" => Some(match props.format.as_str() {
                "byte" => scalar(count(props.max_length).unwrap_or(REQUEST_BYTES - 2), 2),
                "duration" => scalar(32, 3),
                "date" => scalar(12, 12),
                "date-time" => scalar(32, 21),
                _ => scalar(text(props), 2),
            }),
            "boolean" => Some(scalar(0, 4)),
            "number" | "integer" => Some(scalar(0, 1)),
            _ => None,
        }
    }

    /// How often such a value can be in one object if no list or map above it has a bound.
    pub(super) fn most_places(&self) -> u64 {
        REQUEST_BYTES / (self.least + 1)
    }

    /// The declaration below one step of a path.
    pub(super) fn step(&self, name: &str) -> Option<&Declaration> {
        match (name, &self.below) {
            ("@items" | "@values", Below::Items(item) | Below::Values(item)) => Some(item),
            ("@keys", Below::Values(_)) => Some(KEY),
            ("@items" | "@values" | "@keys", _) => None,
            (name, Below::Fields(fields)) => fields.get(name),
            _ => None,
        }
    }
}

fn text(props: &Props) -> u64 {
    if let Some(most) = count(props.max_length) {
        return most.saturating_mul(4);
    }
    let values = props.enumeration.iter().filter(|_| !props.int_or_string);
    let longest = values.map(|value| value.as_str().map_or(0, |text| text.len() as u64)).max();
    longest.unwrap_or(REQUEST_BYTES - 2)
}

/// The properties of an object. Those that every resource has replace declared ones.
fn object(props: &Props, is_resource: bool) -> Declaration {
    let mut own = BTreeMap::new();
    if is_resource && !declares_metadata(props) {
        let metadata = props.properties.get("metadata");
        let name = |name: &str, most: i64| {
            let declared = metadata.and_then(|metadata| metadata.properties.get(name)?.max_length);
            let most = declared.map_or(most, |declared| declared.min(most));
            (name.to_owned(), scalar(count(Some(most)).unwrap_or(0).saturating_mul(4), 2))
        };
        let names = [name("name", NAME_LENGTH), name("generateName", NAME_LENGTH - 1)];
        let names = Below::Fields(names.into_iter().collect());
        own.insert("metadata", Declaration { most: 0, least: 2, below: names });
        own.insert("kind", scalar(REQUEST_BYTES - 2, 2));
        own.insert("apiVersion", scalar(REQUEST_BYTES - 2, 2));
    }
    let (mut fields, mut least) = (BTreeMap::new(), 2);
    let mut add = |name: &str, declaration: Declaration, default: bool| {
        if !default && props.required.iter().any(|required| required == name) {
            least += name.len() as u64 + declaration.least + 4;
        }
        if let Some(escaped) = escape(name) {
            fields.insert(escaped, declaration);
        }
    };
    for (name, property) in props.properties.iter().filter(|(name, _)| !own.contains_key(name.as_str())) {
        if let Some(declaration) = Declaration::of(property, property.embedded_resource) {
            add(name, declaration, property.default.is_some());
        }
    }
    for (name, declaration) in own {
        add(name, declaration, false);
    }
    Declaration { most: 0, least, below: Below::Fields(fields) }
}

/// The size that the schema declares at a place. The variable at its begin does not count.
pub(super) fn declared(root: &Declaration, place: &Place) -> Option<Size> {
    if place.is_empty() {
        return None;
    }
    let mut at = root;
    for name in place.names().iter().skip(1) {
        at = at.step(name)?;
    }
    Some(Size::at_most(at.most))
}
