//! Taking paths out of an object, and the paths that stand for a whole field.

use serde_json::{Map, Value};

use super::types::{Atom, Type};
use crate::fieldset::{Entry, FieldSet, PathElement};

/// The object without the paths of the set. A container that loses everything becomes null.
pub(super) fn remove_items(value: &Value, set: &FieldSet, ty: Type<'_>) -> Value {
    match (ty.atom(Some(value)), value) {
        (Atom::Scalar(_), value) => value.clone(),
        (Atom::List(list), Value::Array(items)) if !list.atomic() => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let entry = list.element_of(item).ok().and_then(|element| set.get(&element));
                    keep(item, entry, list.item)
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Atom::Map(map), Value::Object(fields)) if !map.atomic => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, value)| {
                    let ty = map.child(name).unwrap_or(Type::Deduced);
                    Some((name.clone(), keep(value, set.get_field(name), ty)?))
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

fn keep(value: &Value, entry: Option<&Entry>, ty: Type<'_>) -> Option<Value> {
    match entry {
        Some(entry) if entry.member => None,
        Some(entry) if !entry.children.is_empty() => Some(remove_items(value, &entry.children, ty)),
        _ => Some(value.clone()),
    }
}

/// The set with every declared field above its paths: whoever owns `.a.b` stands for `.a` too.
pub(super) fn with_named_fields(set: &FieldSet, ty: Option<Type<'_>>) -> FieldSet {
    let entries = set.entries.iter().map(|entry| {
        let (declared, below) = match (&entry.element, ty) {
            (PathElement::Field(name), Some(ty)) => match ty.atom(None) {
                Atom::Map(map) => (map.declared(name).is_some(), map.child(name)),
                _ => (false, None),
            },
            (PathElement::Key(_), Some(ty)) => match ty.atom(Some(&Value::Array(Vec::new()))) {
                Atom::List(list) => (false, Some(list.item)),
                _ => (false, None),
            },
            _ => (false, None),
        };
        Entry {
            element: entry.element.clone(),
            member: entry.member || (declared && !entry.children.is_empty()),
            children: with_named_fields(&entry.children, below),
        }
    });
    FieldSet { entries: entries.collect() }
}

/// The set as it would be had it been written with today's schema: what lies below a part that is atomic now
/// becomes that part. None if nothing changes.
pub(super) fn reconcile(set: &FieldSet, ty: Type<'_>) -> Option<FieldSet> {
    let mut out: Option<FieldSet> = None;
    for (at, entry) in set.entries.iter().enumerate() {
        let below = match (ty.atom(None), &entry.element) {
            (Atom::Map(map), PathElement::Field(name)) => map.child(name),
            (Atom::List(list), _) => Some(list.item),
            _ => None,
        };
        let Some(below) = below else { continue };
        let changed = if entry.children.is_empty() { None } else { reconcile_entry(entry, below) };
        if let Some(changed) = changed {
            out.get_or_insert_with(|| set.clone()).entries[at] = changed;
        }
    }
    out
}

fn reconcile_entry(entry: &Entry, ty: Type<'_>) -> Option<Entry> {
    let collapse = match ty.atom(None) {
        Atom::Scalar(_) => return None,
        Atom::List(list) => list.atomic(),
        Atom::Map(map) if map.is_deduced() => return None,
        Atom::Map(map) => map.atomic,
    };
    if collapse {
        return Some(Entry { element: entry.element.clone(), member: true, children: FieldSet::new() });
    }
    let children = reconcile(&entry.children, ty)?;
    Some(Entry { element: entry.element.clone(), member: entry.member, children })
}
