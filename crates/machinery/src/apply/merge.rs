//! Merging a configuration into the live object: nothing is removed, the configuration's leaves win.

use std::collections::BTreeMap;

use serde_json::Value;

use super::types::{Atom, ListType, Type, is_empty};
use crate::fieldset::{PathElement, values_equal};

/// Merges `config` into `target`; both fit the type.
pub(super) fn merge_into(target: &mut Value, config: &Value, ty: Type<'_>) {
    match ty.atom(Some(config)) {
        Atom::Scalar(_) => target.clone_from(config),
        Atom::List(list) => {
            let current = target.as_array().is_some_and(|items| !items.is_empty());
            if list.atomic() || (!current && is_empty(Some(config))) {
                target.clone_from(config);
            } else if let Value::Array(applied) = config {
                let items = match target {
                    Value::Array(items) => std::mem::take(items),
                    _ => Vec::new(),
                };
                *target = Value::Array(merge_items(items, applied, list));
            }
        }
        Atom::Map(map) => {
            let current = target.as_object().is_some_and(|fields| !fields.is_empty());
            if map.atomic || (!current && is_empty(Some(config))) {
                target.clone_from(config);
            } else if let Value::Object(applied) = config {
                if !target.is_object() {
                    *target = Value::Object(serde_json::Map::new());
                }
                let Value::Object(fields) = target else { return };
                for (name, value) in applied {
                    match (fields.get_mut(name), map.child(name)) {
                        (Some(current), Some(ty)) => merge_into(current, value, ty),
                        _ => drop(fields.insert(name.clone(), value.clone())),
                    }
                }
            }
        }
    }
}

/// Longer lists are merged to find out whether that changes anything.
const MAX_COMPARISONS: usize = 10_000;

/// Whether merging `config` into `target` would change nothing. May say no where the answer is yes.
pub(super) fn is_unchanged(target: &Value, config: &Value, ty: Type<'_>) -> bool {
    match ty.atom(Some(config)) {
        Atom::Scalar(_) => values_equal(target, config),
        Atom::List(list) => match (target, config) {
            (Value::Array(items), Value::Array(applied)) if !list.atomic() && !items.is_empty() => {
                items_are_unchanged(items, applied, list)
            }
            (Value::Array(items), Value::Null) if !list.atomic() && !items.is_empty() => true,
            _ => values_equal(target, config),
        },
        Atom::Map(map) => match (target, config) {
            (Value::Object(fields), Value::Object(applied)) if !map.atomic && !fields.is_empty() => {
                applied.iter().all(|(name, value)| match (fields.get(name), map.child(name)) {
                    (Some(current), Some(ty)) => is_unchanged(current, value, ty),
                    _ => false,
                })
            }
            (Value::Object(fields), Value::Null) if !map.atomic && !fields.is_empty() => true,
            _ => values_equal(target, config),
        },
    }
}

/// Whether the applied items are all there, once, settled, and in their order.
fn items_are_unchanged(items: &[Value], applied: &[Value], list: ListType<'_>) -> bool {
    if items.len() * applied.len() > MAX_COMPARISONS {
        return false;
    }
    let mut from = 0;
    applied.iter().all(|wanted| {
        let mut same = items.iter().enumerate().filter(|(_, item)| list.is_same_item(item, wanted));
        match (same.next(), same.next()) {
            (Some((at, item)), None) if at >= from => {
                from = at + 1;
                is_unchanged(item, wanted, list.item)
            }
            _ => false,
        }
    })
}

/// The list's own items with where they stand; an item that occurs twice is merged with nothing.
struct Indexed {
    elements: Vec<PathElement>,
    places: BTreeMap<PathElement, Option<usize>>,
}

fn index(items: &[Value], list: ListType<'_>) -> Indexed {
    let mut elements = Vec::with_capacity(items.len());
    let mut places = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        // Items without an element were refused before; positions stay in step.
        let element =
            list.element_of(item).unwrap_or_else(|_| PathElement::Index(i64::try_from(at).unwrap_or(0)));
        places.entry(element.clone()).and_modify(|place| *place = None).or_insert(Some(at));
        elements.push(element);
    }
    Indexed { elements, places }
}

/// Weaves two lists: items of both keep the applied order among themselves, items of one keep their neighbours.
fn merge_items(current: Vec<Value>, applied: &[Value], list: ListType<'_>) -> Vec<Value> {
    let left = index(&current, list);
    let right = index(applied, list);
    let mut shared = right.elements.iter().filter(|element| left.places.contains_key(*element));
    let mut next_shared = shared.next();
    let mut current: Vec<Option<Value>> = current.into_iter().map(Some).collect();
    let mut merged: Vec<bool> = vec![false; applied.len()];
    let mut out = Vec::with_capacity(current.len().max(applied.len()));
    let (mut own, mut new) = (0, 0);
    while own < current.len() || new < applied.len() {
        if own < current.len() {
            let element = &left.elements[own];
            let place = right.places.get(element).copied().flatten();
            let matches = right.elements.get(new) == Some(element);
            match place {
                None => {
                    out.extend(current[own].take());
                    own += 1;
                    continue;
                }
                // A shared item whose turn has not come: it appears where the configuration has it.
                Some(_)
                    if !matches && new < applied.len() && next_shared.is_some_and(|next| next != element) =>
                {
                    own += 1;
                    continue;
                }
                Some(place) if !matches && merged[place] => own += 1,
                Some(_) if matches => own += 1,
                Some(_) => {}
            }
        }
        if new < applied.len() {
            let element = &right.elements[new];
            let mut item =
                left.places.get(element).copied().flatten().and_then(|place| current[place].take());
            match &mut item {
                Some(item) => merge_into(item, &applied[new], list.item),
                None => item = Some(applied[new].clone()),
            }
            out.extend(item);
            merged[new] = true;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
            new += 1;
        }
    }
    out
}
