//! The directive `$setElementOrder/…`: merges the lists that it names and puts them into its order.

use serde_json::Value;

use super::list::{items_are_objects, merge_lists};
use super::order::{interleave, merge_key, partition};
use super::{DIRECTIVE, Error, Object, SET_ORDER, directive_target, lookup_list, without_directives};
use setpoint_api::go_format;
use setpoint_schema::Schema;

/// Merges every list that comes with a `$setElementOrder` and takes both out of the patch.
pub(super) fn set_element_order(
    original: &mut Object,
    patch: &mut Object,
    schema: &Schema,
) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = patch.remove(&directive).unwrap_or_default();
        let order = expect_list(order)?;
        let Some(name) = directive_target(&directive, SET_ORDER, Error::BadElementOrder)? else { continue };
        let current = original.get(name).cloned().map(expect_list).transpose()?;
        let change = patch.get(name).cloned().map(expect_list).transpose()?;
        let (item, strategy) = lookup_list(schema, name)?;
        let key = strategy.merge_key.as_deref();
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
        let merged = match (&current, &change) {
            (None, None) => continue,
            (Some(current), None) => current.clone(),
            (None, Some(change)) => match without_directives(Value::Array(change.clone())) {
                Some(Value::Array(items)) => items,
                _ => continue,
            },
            (Some(current), Some(change)) => {
                merge_lists(current.clone(), change.clone(), &item, &strategy, false)?
            }
        };
        let (listed, server_only) = partition(merged, &order, key)?;
        let current = current.unwrap_or_default();
        let change = change.unwrap_or_default();
        items_are_objects(&[&current, &change])?;
        let live_order = key.map_or_else(|| current.clone(), |key| order_after_merge(&current, &change, key));
        let both = interleave(listed, server_only, &order, &live_order, key)?;
        patch.remove(name);
        original.insert(name.to_owned(), Value::Array(both));
    }
    Ok(())
}

/// The live order as it is remembered once the patch was merged: kube-apiserver deletes and adds in place, so that an
/// added item takes the place that a deleted one left, and that place is its order from then on.
fn order_after_merge(current: &[Value], change: &[Value], key: &str) -> Vec<Value> {
    let directive = |item: &Value, word: &str| item.get(DIRECTIVE).and_then(Value::as_str) == Some(word);
    let mut places = current.to_vec();
    let mut length = places.len();
    let mut present = present(current, key);
    let mut alive = vec![true; current.len()];
    let mut last = current.len();
    for item in change.iter().filter(|item| directive(item, "delete")) {
        for at in present.remove(&item.get(key)).unwrap_or_default() {
            // The last item stays in the place behind the list that it left.
            while last > 0 && !alive[last - 1] {
                last -= 1;
            }
            length -= 1;
            places[length] = current[last - 1].clone();
            alive[at] = false;
        }
    }
    for (place, item) in places.iter_mut().zip(current.iter().zip(&alive).filter(|(_, alive)| **alive)) {
        place.clone_from(item.0);
    }
    if change.iter().any(|item| directive(item, "replace")) {
        return places;
    }
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        if present.contains_key(&item.get(key)) {
            continue;
        }
        if length == places.len() {
            break;
        }
        places[length] = item.clone();
        length += 1;
        present.insert(item.get(key), Vec::new());
    }
    places
}

/// Returns the positions of the items with each key.
#[allow(clippy::disallowed_types, reason = "only asked for what it holds, never walked")]
fn present<'v>(items: &'v [Value], key: &str) -> std::collections::HashMap<Option<&'v Value>, Vec<usize>> {
    let mut places = std::collections::HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        places.entry(item.get(key)).or_insert_with(Vec::new).push(at);
    }
    places
}

fn expect_list(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(Error::WrongType { expected: "[]interface {}", actual: go_format::type_name(&other) }),
    }
}

/// The patch list must be a part of the directive's list, in its order.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut positions = order.iter();
    'items: for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let wanted = merge_key(item, key)?;
        for listed in positions.by_ref() {
            if merge_key(listed, key)? == wanted {
                continue 'items;
            }
        }
        return Err(Error::OrderMismatch {
            list: go_format::plain(&Value::Array(patch.to_vec())),
            order: go_format::plain(&Value::Array(order.to_vec())),
        });
    }
    Ok(())
}
