//! Orders of siblings in which nothing imports upward, as far as there is one.

use std::collections::{BTreeMap, BTreeSet};

/// How many files of the first module name something of the second.
pub type Weights<'a> = BTreeMap<(&'a str, &'a str), usize>;

/// How many of the modules stand in a cycle.
pub fn in_cycles(names: &[&str], weights: &Weights<'_>) -> usize {
    let reach = reach(names, weights);
    names.iter().filter(|name| reach.contains(&(**name, **name))).count()
}

fn reach<'a>(names: &[&'a str], weights: &Weights<'a>) -> BTreeSet<(&'a str, &'a str)> {
    let mut reach: BTreeSet<(&str, &str)> = weights.keys().copied().collect();
    for middle in names {
        for from in names {
            for to in names {
                if reach.contains(&(*from, *middle)) && reach.contains(&(*middle, *to)) {
                    reach.insert((*from, *to));
                }
            }
        }
    }
    reach
}

/// The upward imports that an order has.
pub fn upward(order: &[&str], weights: &Weights<'_>) -> usize {
    let place = |name: &str| order.iter().position(|other| *other == name);
    weights.iter().filter(|((from, to), _)| place(to) < place(from)).map(|(_, count)| count).sum()
}

/// Puts next the first module of the present order that nothing left imports. In a cycle it takes the one that
/// the fewest files still import.
pub fn suggest<'a>(names: &[&'a str], weights: &Weights<'a>) -> Vec<&'a str> {
    let reach = reach(names, weights);
    let mut left = names.to_vec();
    let mut order = Vec::new();
    while !left.is_empty() {
        let imported = |name: &str| {
            let from = |(from, to): &(&str, &str)| *to == name && *from != name && left.contains(from);
            weights.iter().filter(|(edge, _)| from(edge)).map(|(_, count)| count).sum::<usize>()
        };
        // The next is a cycle that no module outside of it imports.
        let first = |name: &&&str| {
            left.iter().all(|other| !reach.contains(&(*other, **name)) || reach.contains(&(**name, *other)))
        };
        let candidates = left.iter().filter(first);
        let next = *candidates.min_by_key(|name| imported(name)).unwrap_or(&left[0]);
        left.retain(|name| *name != next);
        order.push(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importers_come_first_and_the_rest_stays() {
        let weights = Weights::from([(("c", "a"), 1), (("b", "a"), 2)]);
        let names = ["a", "b", "c"];
        assert_eq!(upward(&names, &weights), 3);
        assert_eq!(in_cycles(&names, &weights), 0);
        assert_eq!(suggest(&names, &weights), ["b", "c", "a"]);
    }

    #[test]
    fn a_cycle_breaks_where_the_fewest_import() {
        let weights = Weights::from([(("a", "b"), 5), (("b", "a"), 1), (("b", "c"), 1)]);
        let names = ["c", "b", "a"];
        let order = suggest(&names, &weights);
        assert_eq!(order, ["a", "b", "c"]);
        assert_eq!((upward(&order, &weights), in_cycles(&names, &weights)), (1, 2));
    }
}
