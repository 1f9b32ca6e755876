//! The order of merged lists: the directive's order before the patch's before the live list's.

use serde_json::Value;

use super::Error;
use super::positions::{Positions, identity, insertion_order};
use setpoint_api::go_format;

/// Returns the merge key's value of a list item, or the item itself where the list has no key.
pub(super) fn merge_key<'a>(item: &'a Value, key: Option<&str>) -> Result<&'a Value, Error> {
    let Some(key) = key else { return Ok(item) };
    if !item.is_object() {
        return Err(Error::WrongType {
            expected: "map[string]interface {}",
            actual: go_format::type_name(item),
        });
    }
    item.get(key).ok_or_else(|| Error::NoMergeKey { map: item.clone(), key: key.into() })
}

/// Splits items into those that `by` names and the others.
pub(super) fn partition(
    items: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    let not_a_map = key.and_then(|_| by.iter().position(|listed| !listed.is_object()));
    let places = Positions::of(by, key);
    for item in items {
        let found = places.get(Some(merge_key(&item, key)?));
        if let Some(at) = not_a_map.filter(|at| found.is_none_or(|found| at < &found)) {
            return Err(Error::ItemNotAMap(at));
        }
        if found.is_some() { inside.push(item) } else { outside.push(item) }
    }
    Ok((inside, outside))
}

/// Sorts the patched items by `order` and the others by the live order, then weaves them so that both orders
/// hold and, where they say nothing, the live order does.
pub(super) fn interleave(
    patched: Vec<Value>,
    server_only: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let patched = sorted_by_order(patched, order, key)?;
    let server_only = sorted_by_order(server_only, live, key)?;
    let live = Positions::of(live, key);
    let mut out = Vec::with_capacity(patched.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patched.into_iter().peekable();
    while let (Some(own), Some(other)) = (left.peek(), right.peek()) {
        let before = match (live.get(identity(own, key)), live.get(identity(other, key))) {
            (Some(own), Some(other)) => own < other,
            _ => false,
        };
        out.extend(if before { left.next() } else { right.next() });
    }
    out.extend(left);
    out.extend(right);
    Ok(out)
}

fn sorted_by_order(items: Vec<Value>, order: &[Value], key: Option<&str>) -> Result<Vec<Value>, Error> {
    if key.is_some() {
        for item in items.iter().chain(order) {
            merge_key(item, key)?;
        }
    }
    let order = Positions::of(order, key);
    let positions: Vec<Option<usize>> = items.iter().map(|item| order.get(identity(item, key))).collect();
    let mut items: Vec<Option<Value>> = items.into_iter().map(Some).collect();
    Ok(insertion_order(&positions).into_iter().filter_map(|at| items[at].take()).collect())
}
