//! Completion indexes in the form of a Job's status: `0,2-5,7`.

use std::collections::BTreeSet;
use std::fmt;

/// A set of indexes as ranges, in order, none touching the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads the text form. Skips indexes at or beyond `completions`, because a Job may have shrunk. Skips anything
    /// that is not a number, because only this controller writes the text.
    pub fn parse(text: &str, completions: i32) -> Indexes {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            if first >= completions {
                break;
            }
            ranges.push((first, last.min(completions - 1)));
        }
        Indexes::joined(ranges)
    }

    /// Creates a set of these indexes.
    pub fn of(indexes: impl IntoIterator<Item = i32>) -> Indexes {
        let ordered: BTreeSet<i32> = indexes.into_iter().collect();
        Indexes::joined(ordered.into_iter().map(|index| (index, index)).collect())
    }

    fn joined(mut ranges: Vec<(i32, i32)>) -> Indexes {
        ranges.sort_unstable();
        let mut joined: Vec<(i32, i32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Indexes(joined)
    }

    /// Returns the union.
    pub fn merged(&self, other: &Indexes) -> Indexes {
        Indexes::joined(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns the number of indexes.
    pub fn total(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    /// Returns the number of indexes in both sets.
    pub fn common(&self, other: &Indexes) -> i32 {
        let overlap = |a: &(i32, i32), b: &(i32, i32)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        self.0.iter().map(|a| other.0.iter().map(|b| overlap(a, b)).sum::<i32>()).sum()
    }

    /// The first `count` indexes below `completions` that are not here.
    pub fn missing(&self, completions: i32, count: usize) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            missing.extend((candidate..first.min(completions)).take(count - missing.len()));
            candidate = candidate.max(last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_kubernetes_own() {
        for (indexes, text) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![3, 2], "2,3"),
            (vec![0, 2, 3, 4, 9], "0,2-4,9"),
            (vec![1, 2, 4, 5, 6], "1,2,4-6"),
        ] {
            assert_eq!(Indexes::of(indexes.clone()).to_string(), text);
            assert_eq!(Indexes::parse(text, 10), Indexes::of(indexes));
        }
        assert_eq!(Indexes::parse("0,2-8,12", 5).to_string(), "0,2-4");
        assert_eq!(Indexes::parse("0,x,3-y,4", 5).to_string(), "0,4");
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in prop::collection::btree_set(0..30i32, 0..20), b in prop::collection::btree_set(0..30i32, 0..20)) {
            let (left, right) = (Indexes::of(a.clone()), Indexes::of(b.clone()));
            let both = left.merged(&right);
            prop_assert_eq!(&both, &Indexes::of(a.union(&b).copied()));
            prop_assert_eq!(both.total() as usize, a.union(&b).count());
            prop_assert_eq!(left.common(&right) as usize, a.intersection(&b).count());
            prop_assert_eq!(Indexes::parse(&left.to_string(), 30), left.clone());
            for index in 0..30 {
                prop_assert_eq!(left.has(index), a.contains(&index));
            }
            let gaps: Vec<i32> = (0..25).filter(|index| !a.contains(index)).take(7).collect();
            prop_assert_eq!(left.missing(25, 7), gaps);
        }
    }
}
