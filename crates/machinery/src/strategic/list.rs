//! Merging lists: items with a merge key by that key, scalars as a set.

use serde_json::Value;

use super::order::{interleave, partition};
use super::positions::{Positions, deduplicate};
use super::{DIRECTIVE, Error, merge_object};
use setpoint_api::go_format;
use setpoint_schema::{PatchStrategy, Schema, Shape};

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
            let deleted = Positions::of(&patch, None);
            return Ok(original.into_iter().filter(|item| !deleted.contains(Some(item))).collect());
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
            Some(first) if go_format::type_name(first) != go_format::type_name(item) => {
                let shown: Vec<String> =
                    lists.iter().map(|list| go_format::plain(&Value::Array(list.to_vec()))).collect();
                return Err(Error::MixedItems(format!("[{}]", shown.join(" "))));
            }
            Some(_) => {}
        }
    }
    first.map(Value::is_object).ok_or(Error::NoElements)
}

/// Performs `$patch: delete|replace` items and returns the list and the patch without them.
fn apply_item_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted = Vec::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE) {
            None => rest.push(item),
            Some(Value::String(word)) if word == "delete" => {
                if item.get(key).is_none() {
                    return Err(Error::NoMergeKey { map: item, key: key.into() });
                }
                deleted.push(item);
            }
            Some(Value::String(word)) if word == "replace" => replace = true,
            Some(Value::String(word)) if word == "merge" => return Err(Error::MergeDirectiveInList),
            Some(other) => {
                return Err(Error::UnknownDirective { directive: go_format::plain(other), map: item });
            }
        }
    }
    let deleted = Positions::of(&deleted, Some(key));
    original.retain(|item| !deleted.contains(item.get(key)));
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_items(
    mut merged: Vec<Value>,
    patch: &[Value],
    key: &str,
    schema: &Schema,
) -> Result<Vec<Value>, Error> {
    let not_a_map = merged.iter().position(|item| !item.is_object());
    let keys: Vec<Value> = merged.iter().map(|item| item.get(key).cloned().unwrap_or(Value::Null)).collect();
    let keyed = merged.iter().zip(&keys).enumerate().filter(|(_, (item, _))| item.get(key).is_some());
    let mut places = Positions::of(&[], None);
    for (at, (_, own)) in keyed {
        places.insert(Some(own), at);
    }
    for item in patch {
        let Some(wanted) = item.get(key) else {
            return Err(Error::NoMergeKey { map: item.clone(), key: key.into() });
        };
        if let Some(at) = not_a_map {
            return Err(Error::ItemNotAMap(at));
        }
        match (places.get(Some(wanted)), item) {
            (Some(at), Value::Object(change)) => {
                let Value::Object(fields) = std::mem::take(&mut merged[at]) else {
                    return Err(Error::ItemNotAMap(0));
                };
                merged[at] = Value::Object(merge_object(fields, change.clone(), schema)?);
            }
            _ => {
                places.insert(Some(wanted), merged.len());
                merged.push(item.clone());
            }
        }
    }
    Ok(merged)
}
