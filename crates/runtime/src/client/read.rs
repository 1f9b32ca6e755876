//! Cached reads.

use std::sync::Arc;
use std::time::Duration;

use kube::core::{ApiResource, DynamicResourceScope, Selector};

use super::caches::{Declared, ReadScope};
use super::intercept::{Intercepted, Verb};
use super::own_writes::Pin;
use super::{Client, Kind, Pending, Reads};
use crate::error::ClientError;
use crate::informer::{LabelMatcher, Lister, Object, ObjectError, Snapshot};
use crate::key::{Key, KeyFor};
use crate::revision::Revision;

/// How long a read waits for a cache that has not synced yet.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Which objects to list.
///
/// ```
/// use setpoint::Query;
/// let query = Query::namespace("default").labels("app=web,tier!=test")?;
/// # let _ = query;
/// # Ok::<(), setpoint::ClientError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(super) namespace: Option<String>,
    pub(super) matcher: LabelMatcher,
    pub(super) selector: Option<String>,
    pub(super) index: Option<(String, String)>,
    pub(super) fields: Option<String>,
}

impl Query {
    /// All objects of the kind.
    pub fn all() -> Self {
        Query::default()
    }

    /// The objects of one namespace.
    pub fn namespace(namespace: impl Into<String>) -> Self {
        Query { namespace: Some(namespace.into()), ..Query::default() }
    }

    /// The objects of the namespace of `namespace`, or all if it is `None`.
    pub fn within(namespace: Option<&str>) -> Self {
        Query { namespace: namespace.map(str::to_owned), ..Query::default() }
    }

    /// Only objects whose labels match, in the form that kubectl takes.
    ///
    /// # Errors
    /// When it is no selector.
    pub fn labels(mut self, selector: &str) -> Result<Self, ClientError> {
        self.matcher = LabelMatcher::parse(selector)?;
        self.selector = Some(selector.to_owned());
        Ok(self)
    }

    /// Only objects whose labels match.
    #[must_use]
    pub fn selector(mut self, selector: Selector) -> Self {
        self.selector = Some(selector.to_string());
        self.matcher = LabelMatcher::from(selector);
        self
    }

    /// Only objects that the index `name` finds under `value`. Cached reads only: anything else is refused.
    #[must_use]
    pub fn index(mut self, name: &str, value: impl Into<String>) -> Self {
        self.index = Some((name.to_owned(), value.into()));
        self
    }

    /// Only objects that the server's field selector matches. Not for cached reads, which have indexes: they are refused.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.fields = Some(selector.to_owned());
        self
    }

    /// The server knows no indexes: without its own it would find more than is asked for.
    pub(super) fn check_for_server(&self) -> Result<(), ClientError> {
        match &self.index {
            Some((index, _)) => Err(ClientError::BadQuery(format!(
                "the index {index:?} is one of the cache, and the server is asked"
            ))),
            None => Ok(()),
        }
    }

    /// The cache knows no field selectors.
    fn check_for_cache(&self) -> Result<(), ClientError> {
        match &self.fields {
            Some(fields) => Err(ClientError::BadQuery(format!(
                "the field selector {fields:?} is one of the server, and the cache is asked: declare an index"
            ))),
            None => Ok(()),
        }
    }

    fn place(&self) -> ReadScope<'_> {
        self.namespace.as_deref().map_or(ReadScope::Everywhere, ReadScope::Namespace)
    }
}

impl Client {
    /// One object from the cache; `None` if there is none.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// When no informer keeps the kind, or the object is no `K`; [`ClientError::Stale`] when the cache does not show in
    /// time what this process wrote under the key.
    pub async fn get<K: Kind>(&self, key: impl KeyFor<K::Scope>) -> Result<Option<Arc<K>>, ClientError> {
        let key = self.key_for::<K>(key)?;
        if self.reads_server() {
            return Ok(Box::pin(self.live().get::<K>(key)).await?.map(Arc::new));
        }
        self.check_read(Verb::Get, &K::kind(&()), key.namespace(), Some(key.name()))?;
        let declared = self.typed_informer_for::<K>(ReadScope::of(key.namespace()))?;
        let snapshot = self.state_for(&declared, Some(&key), None).await?;
        let Some(object) = snapshot.get(key.as_str()) else { return Ok(None) };
        Ok(Some(lister::<K>(&declared, snapshot).decode(&object)?))
    }

    /// Objects from the cache, sorted by namespace and name. One that is no `K` is left out, as [`Lister::decode_all`]
    /// says: [`Client::get`] tells why, and [`Client::list_objects`] lists it.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// When no informer keeps the kind, or the index is unknown; [`ClientError::Stale`] when the cache does not show in
    /// time what this process wrote in the namespace, or anywhere if the query names none.
    pub async fn list<K: Kind>(&self, query: Query) -> Result<Vec<Arc<K>>, ClientError> {
        let (kind, query) = (K::kind(&()), self.query_for::<K>(query));
        if self.reads_server() {
            query.check_for_cache()?;
            return Ok(Box::pin(self.live().list::<K>(query)).await?.into_iter().map(Arc::new).collect());
        }
        self.check_read(Verb::List, &kind, query.namespace.as_deref(), None)?;
        let declared = self.typed_informer_for::<K>(query.place())?;
        let snapshot = self.state_for(&declared, None, query.namespace.as_deref()).await?;
        let objects = select(&snapshot, &query, &kind)?;
        let lister = lister::<K>(&declared, snapshot);
        Ok(lister.decode_all(&objects))
    }

    /// One object of a kind that is known at run time, or its metadata, from the cache.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub async fn get_object(
        &self,
        resource: &ApiResource,
        key: impl KeyFor<DynamicResourceScope>,
    ) -> Result<Option<Object>, ClientError> {
        let key = key.into_key();
        if self.reads_server() {
            let live = Box::pin(self.live().get_value(resource, key)).await?;
            return live.map(|live| object_of(&resource.kind, &live)).transpose();
        }
        self.check_read(Verb::Get, &resource.kind, key.namespace(), Some(key.name()))?;
        let declared = self.informer_for(resource, ReadScope::of(key.namespace()), true)?;
        Ok(self.state_for(&declared, Some(&key), None).await?.get(key.as_str()))
    }

    /// Objects of a kind that is known at run time, or their metadata, from the cache.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// As [`Client::list`].
    pub async fn list_objects(
        &self,
        resource: &ApiResource,
        query: Query,
    ) -> Result<Vec<Object>, ClientError> {
        let query = self.query_within(query);
        if self.reads_server() {
            query.check_for_cache()?;
            let live = Box::pin(self.live().list_values(resource, query)).await?;
            return live.iter().map(|live| object_of(&resource.kind, live)).collect();
        }
        self.check_read(Verb::List, &resource.kind, query.namespace.as_deref(), None)?;
        let declared = self.informer_for(resource, query.place(), true)?;
        let snapshot = self.state_for(&declared, None, query.namespace.as_deref()).await?;
        select(&snapshot, &query, &resource.kind)
    }

    /// The revision at which this reconcile reads `K`; `None` before its first read.
    pub fn pinned_revision<K: Kind>(&self) -> Option<Revision> {
        let pins = self.pins.as_ref()?;
        let declared = self.core.caches.of_kind(&K::api_resource());
        declared.iter().find_map(|declared| pins.revision(declared.number))
    }

    pub(super) fn check_read(
        &self,
        verb: Verb,
        kind: &str,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ClientError> {
        self.check_namespace(namespace)?;
        self.interceptors.check(&Intercepted { verb, kind, namespace, name, subresource: None, live: false })
    }

    /// The state that a read sees: the pinned one, or the present one once it shows this process's writes.
    pub(super) async fn state_for(
        &self,
        declared: &Declared,
        key: Option<&Key>,
        namespace: Option<&str>,
    ) -> Result<Snapshot, ClientError> {
        let (writes, number, consistent) = (&self.core.writes, declared.number, self.identity.consistent);
        let own = self.pins.as_ref().map_or(0, |pins| pins.writes());
        let mut unseen = Vec::new();
        if let Some(pin) = self.pins.as_ref().and_then(|pins| pins.get(number)) {
            let awaited = |write: &Pending| {
                consistent && key.map_or(write.is_within(namespace), |key| write.is_of(key))
            };
            unseen = pin.behind;
            unseen.retain(awaited);
            // Later writes of others, also of this process, must not show within this reconcile.
            if unseen.is_empty() {
                return Ok(pin.state);
            }
        }
        match key {
            _ if !consistent => {}
            Some(key) => unseen.extend(writes.of_key(number, key)),
            None => unseen.extend(writes.of_kind(number, namespace)),
        }
        let informer = &declared.informer;
        if !informer.has_synced() {
            let path = informer.target().resource.plural.clone();
            tokio::time::timeout(SYNC_TIMEOUT, informer.wait_synced())
                .await
                .map_err(|_| ClientError::Timeout { verb: "sync".to_owned(), path, after: SYNC_TIMEOUT })?;
        }
        writes.wait(unseen).await?;
        // An object that was deleted before it came may have come during another wait.
        let coming = if consistent { writes.coming(number, key, namespace) } else { Vec::new() };
        let taken = || {
            // Before the state is taken: what is forgotten in between is in it.
            let noted = if self.pins.is_some() { writes.all_of(number) } else { Vec::new() };
            (noted, informer.store().snapshot())
        };
        let (noted, state) = match coming.is_empty() {
            true => taken(),
            // Boxed, because this is rare and every future that reads would hold the space for it.
            false => Box::pin(writes.taken_without(coming, taken)).await?,
        };
        let Some(pins) = &self.pins else { return Ok(state) };
        let behind = writes.lacking_in(noted, &state);
        Ok(pins.pin(number, Pin { state, behind }, own))
    }

    /// Whether reads go to the server because this client is a test's and has no caches.
    pub(super) fn reads_server(&self) -> bool {
        self.identity.reads == Reads::Server
    }

    /// Whether a state that was read lacks what this process had written under `key`: nothing can be compared with it.
    pub(super) fn is_behind(&self, declared: &Declared, key: &Key, state: &Snapshot) -> bool {
        self.core.writes.lacking(declared.number, key, state)
            || self.pins.as_ref().is_some_and(|pins| pins.is_behind(declared.number, key))
    }
}

/// An object as a cache would have it, from what the server answered.
fn object_of(kind: &str, live: &serde_json::Value) -> Result<Object, ClientError> {
    let decode_error =
        |error: ObjectError| ClientError::Decode { kind: kind.to_owned().into(), reason: error.to_string() };
    Object::from_json(live.to_string().as_bytes()).map_err(decode_error)
}

fn lister<K: Kind>(declared: &Declared, snapshot: Snapshot) -> Lister<K> {
    Lister::pinned(declared.informer.store().clone(), snapshot)
}

fn select(snapshot: &Snapshot, query: &Query, kind: &str) -> Result<Vec<Object>, ClientError> {
    query.check_for_cache()?;
    let namespace = query.namespace.as_deref();
    let Some((index, value)) = &query.index else {
        return Ok(snapshot.select(namespace, &query.matcher).cloned().collect());
    };
    let found = snapshot
        .by_index(index, value)
        .map_err(|_| ClientError::NoIndex { kind: kind.to_owned(), index: index.clone() })?;
    let wanted = |object: &&Object| {
        namespace.is_none_or(|namespace| object.key().namespace() == Some(namespace))
            && query.matcher.matches_labels(object.labels())
    };
    Ok(found.filter(wanted).cloned().collect())
}
