//! Labels in compact form.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The labels of an object, sorted by key. Objects with equal labels share them.
#[derive(Clone, PartialEq, Eq)]
pub struct Labels(pub(super) Arc<Packed>);

/// Keys and values in one text, with the place where each ends: two allocations a set instead of two a label.
#[derive(PartialEq, Eq)]
pub(super) struct Packed {
    text: Box<str>,
    ends: Box<[u32]>,
}

impl Labels {
    pub(crate) fn from_map<K: AsRef<str>, V: AsRef<str>>(map: &BTreeMap<K, V>) -> Self {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(map.len() * 2);
        for (key, value) in map {
            for part in [key.as_ref(), value.as_ref()] {
                text.push_str(part);
                ends.push(u32::try_from(text.len()).expect("an API object is smaller than 4 GiB"));
            }
        }
        Labels(Arc::new(Packed { text: text.into(), ends: ends.into() }))
    }

    /// The value of the label `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.part(middle * 2).cmp(key) {
                std::cmp::Ordering::Equal => return Some(self.part(middle * 2 + 1)),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// All labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|label| (self.part(label * 2), self.part(label * 2 + 1)))
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.0.ends.len() / 2
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are one set in memory, as objects of one workload share it.
    pub(super) fn ptr_eq(&self, other: &Labels) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn part(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.0.ends[index - 1] as usize };
        &self.0.text[start..self.0.ends[index] as usize]
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_map(&pairs.iter().copied().collect::<BTreeMap<_, _>>())
    }

    #[test]
    fn every_label_is_found_and_no_other() {
        let labels = labels(&[("app", "web"), ("tier", ""), ("a", "1"), ("z", "9")]);
        assert_eq!(labels.get("tier"), Some(""));
        assert_eq!(labels.get("z"), Some("9"));
        assert_eq!(labels.get("b"), None);
        assert_eq!(labels.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "app", "tier", "z"]);
    }
}
