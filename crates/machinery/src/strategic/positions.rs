//! The positions of a list's items, by merge key or as a whole. Looking for each in turn would make every
//! merge quadratic.

#![allow(clippy::disallowed_types, reason = "only asked for what it holds, never walked")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

/// The identity of an item; items without the key are known by its absence.
pub(super) fn identity<'v>(item: &'v Value, key: Option<&str>) -> Option<&'v Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

/// The first position of each item.
pub(super) struct Positions<'v>(HashMap<Option<&'v Value>, usize>);

impl<'v> Positions<'v> {
    pub(super) fn of(items: &'v [Value], key: Option<&str>) -> Self {
        let mut first = HashMap::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            first.entry(identity(item, key)).or_insert(at);
        }
        Positions(first)
    }

    pub(super) fn get(&self, identity: Option<&Value>) -> Option<usize> {
        self.0.get(&identity).copied()
    }

    pub(super) fn contains(&self, identity: Option<&Value>) -> bool {
        self.0.contains_key(&identity)
    }

    /// Adds an item that is not there yet.
    pub(super) fn insert(&mut self, identity: Option<&'v Value>, at: usize) {
        self.0.entry(identity).or_insert(at);
    }
}

/// Keeps the first of equal items; a later one is overwritten by the last item, as kube-apiserver does it.
pub(super) fn deduplicate(items: &mut Vec<Value>) {
    let classes = {
        let mut numbers: HashMap<&Value, usize> = HashMap::with_capacity(items.len());
        let number = |item| {
            let next = numbers.len();
            *numbers.entry(item).or_insert(next)
        };
        items.iter().map(number).collect::<Vec<usize>>()
    };
    let mut places: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (at, class) in classes.iter().enumerate() {
        places.entry(*class).or_default().insert(at);
    }
    let mut classes = classes;
    let mut at = 0;
    while at + 1 < items.len() {
        let own = classes[at];
        let next = |places: &BTreeMap<usize, BTreeSet<usize>>| {
            places.get(&own).and_then(|own| own.range(at + 1..).next().copied())
        };
        while let Some(other) = next(&places) {
            let last = items.len() - 1;
            let moved = classes[last];
            if let Some(own) = places.get_mut(&own) {
                own.remove(&other);
            }
            if let Some(moved) = places.get_mut(&moved).filter(|_| last != other) {
                moved.remove(&last);
                moved.insert(other);
            }
            items.swap_remove(other);
            classes.swap_remove(other);
        }
        at += 1;
    }
}

/// The order that kube-apiserver's insertion sort gives items which stand at these positions of another list. It puts
/// what stands nowhere before everything that is sorted so far, and the rest behind what does not come after it: no
/// order that a library sort accepts.
pub(super) fn insertion_order(positions: &[Option<usize>]) -> Vec<usize> {
    const END: usize = usize::MAX;
    let mut next = vec![END; positions.len()];
    let mut head = END;
    let mut sorted: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (item, position) in positions.iter().enumerate() {
        let before = position.and_then(|position| {
            let found = sorted.range(..=(position, END)).next_back().map(|(_, before)| *before);
            sorted.insert((position, item), item);
            found
        });
        match before {
            Some(before) => {
                next[item] = next[before];
                next[before] = item;
            }
            None => {
                next[item] = head;
                head = item;
            }
        }
    }
    let mut order = Vec::with_capacity(positions.len());
    while head != END {
        order.push(head);
        head = next[head];
    }
    order
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Drawn by a small generator: the sort as kube-apiserver does it, and the one here.
    #[test]
    fn the_order_is_that_of_the_insertion_sort() {
        let mut seed = 1_u64;
        for _ in 0..2000 {
            let mut draw = |most: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) % most
            };
            let count = draw(9);
            let positions: Vec<Option<usize>> =
                (0..count).map(|_| usize::try_from(draw(7)).unwrap().checked_sub(2)).collect();
            let mut slow: Vec<usize> = (0..positions.len()).collect();
            for end in 1..slow.len() {
                let mut at = end;
                while at > 0 {
                    let goes_first = match (positions[slow[at]], positions[slow[at - 1]]) {
                        (Some(own), Some(previous)) => own < previous,
                        _ => true,
                    };
                    if !goes_first {
                        break;
                    }
                    slow.swap(at, at - 1);
                    at -= 1;
                }
            }
            assert_eq!(insertion_order(&positions), slow, "{positions:?}");
            let items: Vec<Value> = positions.iter().map(|position| json!(position)).collect();
            let (mut fast, mut slow) = (items.clone(), items);
            deduplicate(&mut fast);
            let mut at = 0;
            while at + 1 < slow.len() {
                let mut other = at + 1;
                while other < slow.len() {
                    if slow[at] == slow[other] {
                        slow.swap_remove(other);
                    } else {
                        other += 1;
                    }
                }
                at += 1;
            }
            assert_eq!(fast, slow, "{positions:?}");
        }
    }
}
