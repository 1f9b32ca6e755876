//! The field set of an object: every leaf and every list item it mentions.

use serde_json::Value;

use super::types::{Atom, ListType, MapType, Type};
use crate::fieldset::{FieldSet, PathElement};

/// The field set of an object that fits its type.
pub(super) fn to_set(value: &Value, ty: Type<'_>) -> FieldSet {
    below(value, ty).0
}

/// Returns the members below the value, and whether the value itself is one.
fn below(value: &Value, ty: Type<'_>) -> (FieldSet, bool) {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => (FieldSet::new(), true),
        Atom::List(list) if list.atomic() => (FieldSet::new(), true),
        Atom::Map(map) if map.atomic => (FieldSet::new(), true),
        Atom::List(list) => {
            (value.as_array().map(|items| list_items(items, list)).unwrap_or_default(), false)
        }
        Atom::Map(map) => {
            (value.as_object().map(|fields| map_entries(fields, map)).unwrap_or_default(), false)
        }
    }
}

fn map_entries(fields: &serde_json::Map<String, Value>, map: MapType<'_>) -> FieldSet {
    let mut set = FieldSet { entries: Vec::with_capacity(fields.len()) };
    for (name, value) in fields {
        let declared = map.declared(name);
        let Some(ty) = declared.map(|(_, ty)| ty).or_else(|| map.child(name)) else { continue };
        let (children, mut member) = below(value, ty);
        member |=
            declared.is_none() || value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        set.attach(map.element_of(name), member, children);
    }
    set
}

fn list_items(items: &[Value], list: ListType<'_>) -> FieldSet {
    let elements: Vec<Option<PathElement>> = items.iter().map(|item| list.element_of(item).ok()).collect();
    let mut sorted: Vec<&PathElement> = elements.iter().flatten().collect();
    sorted.sort();
    let mut found: Vec<(&PathElement, FieldSet)> = Vec::with_capacity(items.len());
    for (element, item) in elements.iter().zip(items) {
        let Some(element) = element else { continue };
        let first = sorted.partition_point(|other| *other < element);
        let duplicated = sorted.get(first + 1).is_some_and(|next| *next == element);
        // A manager owns a duplicate item only as a whole: nothing tells the fields of duplicates apart.
        let children = if duplicated { FieldSet::new() } else { below(item, list.item).0 };
        found.push((element, children));
    }
    // In order each one goes to the end: in the middle it would move all that come after it.
    found.sort_by_key(|(element, _)| *element);
    let mut set = FieldSet { entries: Vec::with_capacity(found.len()) };
    for (element, children) in found {
        set.attach(element.clone(), true, children);
    }
    set
}
