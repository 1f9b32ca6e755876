//! A first state as it streams in.

use std::collections::BTreeMap;

use crate::informer::cache::Object;
use crate::key::Key;
use crate::revision::Revision;

/// The objects of a first state as they stream in. Servers send them in order of their keys, without repetition;
/// only when one does not is anything looked up.
#[derive(Default)]
pub(super) struct FirstState {
    ordered: Vec<Object>,
    by_key: Option<BTreeMap<Key, Object>>,
    /// The objects that went while it streamed in, and at which revision: an older event of one may come late.
    gone: BTreeMap<Key, Revision>,
}

impl FirstState {
    /// Adds an object. Tells whether it came in order, as all before it: then it is of the first state for certain,
    /// and not a later change.
    pub fn put(&mut self, object: Object) -> bool {
        let revision = object.revision();
        if self.gone.get(object.key()).is_some_and(|gone| revision != 0 && revision <= *gone) {
            return false;
        }
        if self.by_key.is_none() && self.ordered.last().is_none_or(|last| last.key() < object.key()) {
            self.ordered.push(object);
            return true;
        }
        let by_key = self.by_key();
        let newer = by_key.get(object.key()).is_none_or(|known| known.revision() <= object.revision());
        if newer {
            by_key.insert(object.key().clone(), object);
        }
        false
    }

    /// Takes an object away, unless a newer one has come under its name already: the word of its predecessor was late.
    pub fn delete(&mut self, object: &Object) {
        let revision = object.revision();
        let by_key = self.by_key();
        // Revision zero means that the server's resourceVersion is no number: then order of arrival decides.
        if by_key.get(object.key()).is_some_and(|known| revision != 0 && revision < known.revision()) {
            return;
        }
        by_key.remove(object.key());
        let gone = self.gone.entry(object.key().clone()).or_default();
        *gone = revision.max(*gone);
    }

    fn by_key(&mut self) -> &mut BTreeMap<Key, Object> {
        let ordered = std::mem::take(&mut self.ordered);
        let by_key = self.by_key.get_or_insert_default();
        by_key.extend(ordered.into_iter().map(|object| (object.key().clone(), object)));
        by_key
    }

    pub fn objects(self) -> Vec<Object> {
        self.by_key.map_or(self.ordered, |by_key| by_key.into_values().collect())
    }
}
