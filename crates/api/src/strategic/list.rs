//! Merging lists: items with a merge key by that key, scalars as a set.

use serde_json::Value;

use super::order::{interleave, partition};
use super::{DIRECTIVE, Error, merge_object};
use crate::gostyle;
use crate::schema::{PatchStrategy, Schema, Shape};

pub(super) fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    item: &Schema,
    strategy: &PatchStrategy,
    delete_list: bool,
) -> Result<Vec<Value>, Error> {
    if !strategy.merge && !delete_list {
        return Ok(patch);
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let key = strategy.merge_key.as_deref();
    if !items_are_objects(&[&original, &patch])? {
        if delete_list {
            return Ok(original.into_iter().filter(|item| !patch.contains(item)).collect());
        }
        let mut merged = original.clone();
        merged.extend(patch.iter().cloned());
        deduplicate(&mut merged);
        let (in_patch, server_only) = partition(merged, &patch, None)?;
        return interleave(in_patch, server_only, &patch, &original, None);
    }
    let Some(key) = key else {
        return Err(Error::NoMergeKeyDeclared(go_kind(item)));
    };
    let (original, patch) = apply_item_directives(original, patch, key)?;
    let merged = merge_items(original.clone(), &patch, key, item)?;
    let (in_patch, server_only) = partition(merged, &patch, Some(key))?;
    interleave(in_patch, server_only, &patch, &original, Some(key))
}

fn go_kind(item: &Schema) -> &'static str {
    match item.shape {
        Shape::Struct(_) | Shape::Any => "struct",
        Shape::Map { .. } => "map",
        Shape::List { .. } => "slice",
        Shape::Scalar(_) => "string",
    }
}

/// Whether the items are objects; all must be of one type.
pub(super) fn items_are_objects(lists: &[&[Value]]) -> Result<bool, Error> {
    let mut first: Option<&Value> = None;
    for item in lists.iter().flat_map(|list| list.iter()) {
        match first {
            None if item.is_array() => return Err(Error::ListOfLists),
            None => first = Some(item),
            Some(first) if gostyle::type_name(first) != gostyle::type_name(item) => {
                let shown: Vec<String> =
                    lists.iter().map(|list| gostyle::plain(&Value::Array(list.to_vec()))).collect();
                return Err(Error::MixedItems(format!("[{}]", shown.join(" "))));
            }
            Some(_) => {}
        }
    }
    first.map(Value::is_object).ok_or(Error::NoElements)
}

/// Keeps the first of equal items; a later one is overwritten by the last item, as kube-apiserver does it.
fn deduplicate(items: &mut Vec<Value>) {
    let mut at = 0;
    while at + 1 < items.len() {
        let mut other = at + 1;
        while other < items.len() {
            if items[at] == items[other] {
                items.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
}

/// Performs `$patch: delete|replace` items and returns the list and the patch without them.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE) {
            None => rest.push(item),
            Some(Value::String(word)) if word == "delete" => {
                let Some(wanted) = item.get(key) else {
                    return Err(Error::NoMergeKey { map: item, key: key.into() });
                };
                original.retain(|item| item.get(key) != Some(wanted));
            }
            Some(Value::String(word)) if word == "replace" => replace = true,
            Some(Value::String(word)) if word == "merge" => return Err(Error::MergeDirectiveInList),
            Some(other) => {
                return Err(Error::UnknownDirective { directive: gostyle::plain(other), map: item });
            }
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_items(
    mut merged: Vec<Value>,
    patch: &[Value],
    key: &str,
    schema: &Schema,
) -> Result<Vec<Value>, Error> {
    for item in patch {
        let Some(wanted) = item.get(key) else {
            return Err(Error::NoMergeKey { map: item.clone(), key: key.into() });
        };
        if let Some(at) = merged.iter().position(|item| !item.is_object()) {
            return Err(Error::ItemNotAMap(at));
        }
        let found = merged.iter_mut().find(|item| item.get(key) == Some(wanted));
        match (found, item) {
            (Some(current), Value::Object(change)) => {
                let Value::Object(fields) = std::mem::take(current) else {
                    return Err(Error::ItemNotAMap(0));
                };
                *current = Value::Object(merge_object(fields, change.clone(), schema)?);
            }
            _ => merged.push(item.clone()),
        }
    }
    Ok(merged)
}
