//! The whole cache at one moment.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use imbl::OrdMap;

use super::index::{IndexState, UnknownIndex};
use super::labels::Labels;
use super::object::Object;
use super::selector::LabelMatcher;
use crate::key::Key;
use crate::revision::Revision;

/// Which part of a kind one reflector covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Every namespace, or a kind without namespaces.
    All,
    /// One namespace.
    Namespace(Arc<str>),
}

impl Scope {
    /// One namespace.
    pub fn namespace(name: &str) -> Self {
        Scope::Namespace(name.into())
    }

    /// Whether objects in `namespace` belong to this scope.
    pub fn covers(&self, namespace: Option<&str>) -> bool {
        match self {
            Scope::All => true,
            Scope::Namespace(own) => namespace == Some(own),
        }
    }
}

/// How far the cache has got in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Everything up to this revision has been seen.
    pub revision: Revision,
    /// The first full state has arrived.
    pub synced: bool,
    /// Grows when the server went back to an older revision (restored from a backup, kind deleted and made anew):
    /// revisions of different epochs cannot be compared.
    pub epoch: u64,
    /// The number of the last relist that came to its end: everything that was true when it was asked for is in the cache.
    pub relists: u64,
}

#[derive(Clone, Default)]
pub(super) struct State {
    pub objects: OrdMap<Key, Object>,
    pub indexes: Vec<IndexState>,
    pub scopes: Scopes,
    /// How often it was written: orders the states of one store.
    pub writes: u64,
}

/// How far each scope has got, sorted by scope. Most stores have one, for which a tree's node would be far too large.
#[derive(Clone, Default)]
pub(super) struct Scopes(Vec<(Scope, Progress)>);

impl Scopes {
    pub fn get(&self, scope: &Scope) -> Option<&Progress> {
        self.place(scope).ok().map(|place| &self.0[place].1)
    }

    /// The progress of `scope`, declared now if it is new.
    pub fn entry(&mut self, scope: &Scope) -> &mut Progress {
        let place = self.place(scope).unwrap_or_else(|place| {
            self.0.reserve_exact(1);
            self.0.insert(place, (scope.clone(), Progress::default()));
            place
        });
        &mut self.0[place].1
    }

    pub fn remove(&mut self, scope: &Scope) {
        if let Ok(place) = self.place(scope) {
            self.0.remove(place);
        }
    }

    pub fn values(&self) -> impl Iterator<Item = &Progress> {
        self.0.iter().map(|(_, progress)| progress)
    }

    fn place(&self, scope: &Scope) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(scope))
    }
}

impl State {
    pub fn scope_of(&self, namespace: Option<&str>) -> Option<Progress> {
        let own = namespace.and_then(|name| self.scopes.get(&Scope::namespace(name)));
        own.or_else(|| self.scopes.get(&Scope::All)).copied()
    }

    pub fn revision(&self) -> Revision {
        self.scopes.values().map(|progress| progress.revision).min().unwrap_or(0)
    }
}

/// The cache as it was at one moment. Taking it, cloning it and keeping it is cheap; it never changes.
///
/// ```
/// use setpoint::Object;
/// use setpoint::informer::{Scope, Store, Delta};
/// let store = Store::default();
/// let pod = Object::from_json(br#"{"metadata":{"name":"a","namespace":"x","resourceVersion":"3"}}"#)?;
/// store.apply(&Scope::All, Delta::Replaced { revision: 5, objects: vec![pod] });
/// let before = store.snapshot();
/// store.apply(&Scope::All, Delta::Replaced { revision: 6, objects: vec![] });
/// assert_eq!((before.len(), store.snapshot().len()), (1, 0));
/// assert_eq!(before.revision(), 5);
/// # Ok::<(), setpoint::informer::ObjectError>(())
/// ```
#[derive(Clone)]
pub struct Snapshot(pub(super) Arc<State>);

impl Snapshot {
    /// How often the store had been written: orders its states.
    pub(crate) fn writes(&self) -> u64 {
        self.0.writes
    }

    /// The revision up to which everything is contained: the lowest of all scopes, zero before the first sync.
    pub fn revision(&self) -> Revision {
        self.0.revision()
    }

    /// How far the scope has got that objects in `namespace` belong to; `None` when the cache does not cover it.
    pub fn progress(&self, namespace: Option<&str>) -> Option<Progress> {
        self.0.scope_of(namespace)
    }

    /// One object by its key, `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<Object> {
        self.0.objects.get(key).cloned()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.objects.len()
    }

    /// The relist that every scope has finished.
    pub(crate) fn relists(&self) -> u64 {
        self.0.scopes.values().map(|progress| progress.relists).min().unwrap_or(0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.objects.is_empty()
    }

    /// All objects, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.0.objects.values()
    }

    /// The objects of one namespace, sorted by name.
    pub fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        let prefix = format!("{namespace}/");
        let range = self.0.objects.range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        range.take_while(move |(key, _)| key.as_str().starts_with(&prefix)).map(|(_, object)| object)
    }

    /// The objects of one namespace, or of all, whose labels match.
    pub fn select<'a>(
        &'a self,
        namespace: Option<&str>,
        matcher: &'a LabelMatcher,
    ) -> Box<dyn Iterator<Item = &'a Object> + 'a> {
        // Objects of one workload lie side by side and share their labels: each set is matched once in a row.
        let mut last: Option<(&Labels, bool)> = None;
        let matches = move |object: &&'a Object| match last {
            Some((labels, matched)) if labels.ptr_eq(object.labels()) => matched,
            _ => {
                let matched = matcher.matches_labels(object.labels());
                last = Some((object.labels(), matched));
                matched
            }
        };
        match namespace {
            Some(namespace) => Box::new(self.in_namespace(namespace).filter(matches)),
            None => Box::new(self.iter().filter(matches)),
        }
    }

    /// The objects that the index `name` finds under `value`, sorted by key.
    ///
    /// # Errors
    /// When no such index was declared.
    pub fn by_index<'a>(
        &'a self,
        name: &str,
        value: &'a str,
    ) -> Result<impl Iterator<Item = &'a Object>, UnknownIndex> {
        let index = self.0.indexes.iter().find(|state| *state.index.name == *name);
        let index = index.ok_or_else(|| UnknownIndex { name: name.to_owned() })?;
        Ok(index.keys(value).filter_map(|key| self.0.objects.get(key)))
    }

    /// States of objects that the function of an index has panicked on.
    pub(crate) fn index_panics(&self) -> u64 {
        self.0.indexes.iter().map(|state| state.panics.load(Ordering::Relaxed)).sum()
    }

    /// The first object whose key comes after `key`, or the first of all.
    pub(crate) fn after(&self, key: Option<&Key>) -> Option<&Object> {
        match key {
            None => self.0.objects.get_min().map(|(_, object)| object),
            Some(key) => {
                let range = (Bound::Excluded(key), Bound::Unbounded);
                self.0.objects.range::<_, Key>(range).next().map(|(_, object)| object)
            }
        }
    }
}
