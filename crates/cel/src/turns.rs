//! The turns of loops. A loop that ends early must not read its whole range: its cost does not bound that.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value;
use kube_cel::cel::objects::Map;

/// Maps with fewer entries are sorted anew for each loop.
const SMALL: usize = 16;
/// The most entries of maps that are kept sorted. All are forgotten when there would be more.
const MOST_ENTRIES: usize = 1_000_000;

/// The entries of a map in the order of their keys.
type Ordered = Arc<Vec<(Value, Value)>>;

/// The range of a loop.
pub(super) enum Turns {
    List(Arc<Vec<Value>>),
    Map(Ordered),
}

impl Turns {
    pub(super) fn count(&self) -> usize {
        match self {
            Turns::List(items) => items.len(),
            Turns::Map(entries) => entries.len(),
        }
    }

    /// The values of the variables in one turn: of one variable or of two.
    pub(super) fn values(&self, at: usize, both: bool) -> (Value, Option<Value>) {
        match self {
            Turns::List(items) if both => {
                (Value::Int(i64::try_from(at).unwrap_or(i64::MAX)), Some(items[at].clone()))
            }
            Turns::List(items) => (items[at].clone(), None),
            Turns::Map(entries) => (entries[at].0.clone(), both.then(|| entries[at].1.clone())),
        }
    }
}

/// Maps in the order of their keys. Go's order is random; a cluster's run must not be.
#[derive(Default)]
pub(super) struct Sorted {
    /// By the address of the map, which is kept so that no other gets the address.
    known: BTreeMap<usize, (Map, Ordered)>,
    entries: usize,
}

impl Sorted {
    pub(super) fn entries(&mut self, map: &Map) -> Ordered {
        if map.map.len() < SMALL {
            return Arc::new(sort(map));
        }
        let address = Arc::as_ptr(&map.map).addr();
        if let Some((_, sorted)) = self.known.get(&address) {
            return sorted.clone();
        }
        if self.entries + map.map.len() > MOST_ENTRIES {
            (self.known, self.entries) = (BTreeMap::new(), 0);
        }
        let sorted = Arc::new(sort(map));
        self.entries += sorted.len();
        self.known.insert(address, (map.clone(), sorted.clone()));
        sorted
    }
}

fn sort(map: &Map) -> Vec<(Value, Value)> {
    let mut entries: Vec<(Value, Value)> =
        map.map.iter().map(|(key, value)| (Value::from(key), value.clone())).collect();
    entries.sort_by(|(left, _), (right, _)| left.partial_cmp(right).unwrap_or(Ordering::Equal));
    entries
}
