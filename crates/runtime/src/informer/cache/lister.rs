//! Typed reads from a cache.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::index::UnknownIndex;
use super::object::{DecodeError, Object};
use super::selector::LabelMatcher;
use super::snapshot::Snapshot;
use super::store::Store;
use crate::key::join_key;

/// Reads a store's objects as `K`: a typed resource, `DynamicObject`, `PartialObjectMeta<_>`, or any partial type
/// that can be decoded. What was decoded lately is shared.
///
/// # Objects that are no `K`
/// An object that does not decode is an error on its own key: [`Lister::get`] of it is an error. Reads of several
/// objects leave it out, or one odd object would fail every reconcile that lists its kind. Each time is counted
/// (`setpoint_informer_decode_errors_total`), and the first time that a state of an object is left out, that is warned
/// of with its kind and key. Whoever must know of every object, say because it makes those that it does not find,
/// looks at the keys and the metadata, which are always there: [`Lister::snapshot`] has them, or a lister of
/// `PartialObjectMeta<K>`.
///
/// ```
/// use setpoint::Object;
/// use setpoint::informer::{Delta, Lister, Scope, Store};
/// let store = Store::default();
/// let pod = Object::from_json(br#"{"apiVersion":"v1","kind":"Pod",
///     "metadata":{"name":"web-0","namespace":"default","resourceVersion":"3"},"spec":{"containers":[]}}"#)?;
/// store.apply(&Scope::All, Delta::Replaced { revision: 5, objects: vec![pod] });
/// let pods = Lister::<k8s_openapi::api::core::v1::Pod>::new(store);
/// let pod = pods.get(Some("default"), "web-0")?.expect("it was listed");
/// assert_eq!(pod.metadata.name.as_deref(), Some("web-0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Lister<K> {
    store: Store,
    pinned: Option<Snapshot>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Lister { store: self.store.clone(), pinned: self.pinned.clone(), kind: PhantomData }
    }
}

/// A read by index failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The index was not declared.
    #[error(transparent)]
    UnknownIndex(#[from] UnknownIndex),
    /// An object is no `K`. Reads of several objects leave those out, so that none gives this at present.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl<K: DeserializeOwned + Send + Sync + 'static> Lister<K> {
    /// Reads the present state of `store`.
    pub fn new(store: Store) -> Self {
        Lister { store, pinned: None, kind: PhantomData }
    }

    /// Reads `snapshot`, which was taken from `store`, whatever happens to the store meanwhile.
    pub fn pinned(store: Store, snapshot: Snapshot) -> Self {
        Lister { store, pinned: Some(snapshot), kind: PhantomData }
    }

    /// The state that this lister reads from at the moment.
    pub fn snapshot(&self) -> Snapshot {
        self.pinned.clone().unwrap_or_else(|| self.store.snapshot())
    }

    /// The object as `K`, decoded now or lately.
    ///
    /// # Errors
    /// When it is no `K`.
    pub fn decode(&self, object: &Object) -> Result<Arc<K>, DecodeError> {
        self.store.decoded().decode(object)
    }

    /// One object, or `None` when the cache does not have it.
    ///
    /// # Errors
    /// When it is no `K`.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Result<Option<Arc<K>>, DecodeError> {
        self.get_key(&join_key(namespace, name))
    }

    /// One object by its key.
    ///
    /// # Errors
    /// When it is no `K`.
    pub fn get_key(&self, key: &str) -> Result<Option<Arc<K>>, DecodeError> {
        let object = match &self.pinned {
            Some(snapshot) => snapshot.get(key),
            None => self.store.get(key),
        };
        object.map(|object| self.decode(&object)).transpose()
    }

    /// Those of `objects` that are a `K`, in their order; see [the others](Lister#objects-that-are-no-k).
    pub fn decode_all<'a>(&self, objects: impl IntoIterator<Item = &'a Object>) -> Vec<Arc<K>> {
        let decoded = objects.into_iter().map(|object| self.store.decoded().decode_listed(object));
        decoded.flatten().collect()
    }

    /// All objects, sorted by key, without [those that are no `K`](Lister#objects-that-are-no-k).
    ///
    /// # Errors
    /// None at present.
    pub fn list(&self) -> Result<Vec<Arc<K>>, DecodeError> {
        Ok(self.decode_all(self.snapshot().iter()))
    }

    /// The objects of one namespace, sorted by name, without [those that are no `K`](Lister#objects-that-are-no-k).
    ///
    /// # Errors
    /// None at present.
    pub fn list_namespace(&self, namespace: &str) -> Result<Vec<Arc<K>>, DecodeError> {
        Ok(self.decode_all(self.snapshot().in_namespace(namespace)))
    }

    /// The objects of one namespace, or of all, whose labels match, without
    /// [those that are no `K`](Lister#objects-that-are-no-k). Only those that match are decoded.
    ///
    /// # Errors
    /// None at present.
    pub fn select(
        &self,
        namespace: Option<&str>,
        matcher: &LabelMatcher,
    ) -> Result<Vec<Arc<K>>, DecodeError> {
        Ok(self.decode_all(self.snapshot().select(namespace, matcher)))
    }

    /// The objects that the index `name` finds under `value`, without
    /// [those that are no `K`](Lister#objects-that-are-no-k).
    ///
    /// # Errors
    /// When no such index was declared.
    pub fn by_index(&self, name: &str, value: &str) -> Result<Vec<Arc<K>>, ListError> {
        let snapshot = self.snapshot();
        Ok(self.decode_all(snapshot.by_index(name, value)?))
    }
}
