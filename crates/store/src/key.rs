//! Which keys a read or a watch is about.

use std::ops::Bound;

use bytes::Bytes;

/// A contiguous set of keys, in byte order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyRange {
    /// Every key that starts with these bytes; no bytes means every key.
    Prefix(Bytes),
    /// One key.
    Key(Bytes),
    /// From the first key (included) to the second (excluded).
    Between(Bytes, Bytes),
}

impl KeyRange {
    /// Every key of the store.
    pub fn all() -> Self {
        KeyRange::Prefix(Bytes::new())
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        KeyRange::Prefix(Bytes::copy_from_slice(prefix.as_ref()))
    }

    /// One key.
    pub fn key(key: impl AsRef<[u8]>) -> Self {
        KeyRange::Key(Bytes::copy_from_slice(key.as_ref()))
    }

    /// From `start` (included) to `end` (excluded); empty when `end` is not greater.
    pub fn between(start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Self {
        KeyRange::Between(Bytes::copy_from_slice(start.as_ref()), Bytes::copy_from_slice(end.as_ref()))
    }

    /// Whether `key` is one of them.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            KeyRange::Prefix(prefix) => key.starts_with(prefix),
            KeyRange::Key(only) => key == only,
            KeyRange::Between(start, end) => start <= key && key < end,
        }
    }

    /// The part of this range at or after `from`, or `None` when nothing can be in it.
    pub(crate) fn bounds(&self, from: Option<&[u8]>) -> Option<(Bound<Bytes>, Bound<Bytes>)> {
        let (start, end) = match self {
            KeyRange::Prefix(prefix) => (prefix.clone(), after_prefix(prefix)),
            KeyRange::Key(key) => (key.clone(), Bound::Included(key.clone())),
            KeyRange::Between(start, end) => (start.clone(), Bound::Excluded(end.clone())),
        };
        let start = match from {
            Some(from) if *from > *start => Bytes::copy_from_slice(from),
            _ => start,
        };
        let empty = match &end {
            Bound::Included(end) => start > end,
            Bound::Excluded(end) => start >= end,
            Bound::Unbounded => false,
        };
        (!empty).then_some((Bound::Included(start), end))
    }
}

/// The least key that is greater than every key with this prefix.
fn after_prefix(prefix: &[u8]) -> Bound<Bytes> {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bound::Excluded(end.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(range: &KeyRange, from: Option<&[u8]>, keys: &[&[u8]]) -> Vec<Vec<u8>> {
        let Some((start, end)) = range.bounds(from) else { return Vec::new() };
        let set: std::collections::BTreeSet<Bytes> = keys.iter().map(|k| Bytes::copy_from_slice(k)).collect();
        set.range((start, end)).map(|k| k.to_vec()).collect()
    }

    #[test]
    fn bounds_agree_with_contains() {
        let all: Vec<&[u8]> = vec![
            b"",
            b"a",
            b"a\xff",
            b"a\xff\xff",
            b"a\xff\xff\x00",
            b"b",
            b"b/",
            b"b/x",
            b"\xff",
            b"\xff\xff",
        ];
        let ranges = [
            KeyRange::all(),
            KeyRange::prefix(b"a"),
            KeyRange::prefix(b"a\xff"),
            KeyRange::prefix(b"\xff"),
            KeyRange::key(b"b"),
            KeyRange::between(b"a\xff", b"b/"),
            KeyRange::between(b"b", b"a"),
        ];
        for range in &ranges {
            let expected: Vec<Vec<u8>> =
                all.iter().filter(|k| range.contains(k)).map(|k| k.to_vec()).collect();
            assert_eq!(keys(range, None, &all), expected, "{range:?}");
            for from in &all {
                let later: Vec<Vec<u8>> =
                    expected.iter().filter(|k| k.as_slice() >= *from).cloned().collect();
                assert_eq!(keys(range, Some(from), &all), later, "{range:?} from {from:?}");
            }
        }
    }
}
