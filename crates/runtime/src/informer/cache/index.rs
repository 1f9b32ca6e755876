//! Secondary indexes: from a value that a function reads off each object to the objects that have it.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use imbl::OrdSet;

use super::object::Object;
use crate::key::Key;

/// Reads the values under which an object is found in an index.
pub type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// A named index over the objects of one cache.
///
/// ```
/// use setpoint::informer::Index;
/// let by_node = Index::by_path("node", "spec.nodeName");
/// let by_owner = Index::by_owner_uid("owner");
/// let by_app = Index::new("app", |object| object.labels().get("app").map(str::to_owned).into_iter().collect());
/// ```
#[derive(Clone)]
pub struct Index {
    pub(crate) name: Arc<str>,
    pub(crate) values: IndexFn,
}

impl Index {
    /// An index by a function. Keep it cheap: it runs once for each change. Accessors on metadata are free,
    /// [`Object::path`] expands the object, [`Object::decode`] costs the most. It must not call the cache, which is
    /// being written. An object that it panics on is not in the index; that is counted
    /// (`setpoint_informer_index_panics_total`) and logged by its key, and concerns no other object.
    pub fn new<F>(name: &str, values: F) -> Self
    where
        F: Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    {
        Index { name: name.into(), values: Arc::new(values) }
    }

    /// An index by the string, number or boolean at a dotted path such as `spec.nodeName`.
    pub fn by_path(name: &str, path: &str) -> Self {
        let path = path.to_owned();
        Index::new(name, move |object| object.path(&path).into_iter().collect())
    }

    /// An index by the uids of all owners.
    pub fn by_owner_uid(name: &str) -> Self {
        Index::new(name, |object| object.owner_references().iter().map(|owner| owner.uid.clone()).collect())
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.name).finish()
    }
}

/// An index with that name exists already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cache has an index named {name:?} already")]
pub struct IndexConflict {
    /// The name.
    pub name: String,
}

/// No index with that name was declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cache has no index named {name:?}: declare it with add_index")]
pub struct UnknownIndex {
    /// The name.
    pub name: String,
}

/// One index's contents at one moment.
#[derive(Clone)]
pub(super) struct IndexState {
    pub index: Index,
    pub entries: OrdSet<(Arc<str>, Key)>,
    /// States of objects that the function panicked on.
    pub panics: Arc<AtomicU64>,
}

impl IndexState {
    pub fn new(index: Index) -> Self {
        IndexState { index, entries: OrdSet::new(), panics: Arc::default() }
    }

    /// Moves one key from the values of `old` to those of `new`.
    pub fn change(&mut self, old: Option<&Object>, new: Option<&Object>) {
        let before = old.and_then(|old| self.values(old)).unwrap_or_default();
        let after = new.and_then(|new| {
            let values = self.values(new);
            // Only of the new state: it was the new one before it was the old one.
            if values.is_none() {
                self.note_panic(new);
            }
            values
        });
        let after = after.unwrap_or_default();
        if before == after {
            return;
        }
        let Some(key) = old.or(new).map(|object| object.key().clone()) else { return };
        for value in before.iter().filter(|value| after.binary_search(value).is_err()) {
            self.entries.remove(&(Arc::from(value.as_str()), key.clone()));
        }
        for value in after.iter().filter(|value| before.binary_search(value).is_err()) {
            let value = self.shared(value);
            self.entries.insert((value, key.clone()));
        }
    }

    /// The values of `object`, sorted; `None` when the function panicked on it. It runs while the store is locked: a
    /// panic that went on would leave no reader a store.
    fn values(&self, object: &Object) -> Option<Vec<String>> {
        let mut values = std::panic::catch_unwind(AssertUnwindSafe(|| (self.index.values)(object))).ok()?;
        values.sort_unstable();
        values.dedup();
        Some(values)
    }

    fn note_panic(&self, object: &Object) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            index = self.index.name(),
            kind = object.path("kind"),
            key = object.key().as_str(),
            "an index function panicked; the index omits the object"
        );
    }

    /// The keys that have `value`, sorted.
    pub fn keys<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a Key> {
        let start = (Arc::from(value), Key::new(None, ""));
        self.entries.range(start..).take_while(move |(found, _)| **found == *value).map(|(_, key)| key)
    }

    /// The text of `value` that other entries hold already, so that each value is kept once.
    fn shared(&self, value: &str) -> Arc<str> {
        let text: Arc<str> = value.into();
        let next = self.entries.get_next(&(text.clone(), Key::new(None, "")));
        next.filter(|(found, _)| *found == text).map_or(text, |(found, _)| found.clone())
    }
}
