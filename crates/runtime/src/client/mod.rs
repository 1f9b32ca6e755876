//! The client that reconcilers use: reads from the cache, writes to the server, and sees its own writes.

mod applied;
mod apply;
mod connect;
mod dynamic;
mod delete;
mod extract;
mod live;
mod owned;
mod partial;
mod owner;
mod read;
mod subresource;
mod upsert;
mod owner_check;
mod write;
mod intercept;
mod patch;
mod own_writes;
mod reconciled;
mod authors;
mod preconditions;
mod caches;
mod kind;
mod transport;

use std::fmt;
use std::sync::Arc;

use kube::core::ApiResource;
use prometheus_client::metrics::counter::Counter;

use crate::error::ClientError;
use crate::informer::FieldOwners;
use crate::key::{Key, KeyFor};
use crate::leader_clock::LeaderClock;

pub use crate::error::ApiError;
pub use authors::Author;
pub use connect::{ConnectError, connect, connect_with};
pub use delete::{DeleteOptions, Propagation};
pub use dynamic::DynamicClient;
pub use intercept::{Intercepted, Verb};
pub use kind::Kind;
pub use live::Live;
pub use own_writes::CONSISTENCY_TIMEOUT;
pub use owner::{
    controller_reference, is_controlled_by, owner_reference, set_controller_reference, set_owner_reference,
};
pub use patch::Patch;
pub use preconditions::Preconditions;
pub use read::Query;
pub use transport::{MAX_RETRIES, RECONCILE_CAUSES, RECONCILE_ID, REQUEST_TIMEOUT};
pub use upsert::Upserted;

pub(crate) use applied::Applied;
pub(crate) use authors::Authors;
pub(crate) use caches::Caches;
pub use caches::HeldInformer;
pub(crate) use own_writes::{Pending, Pins, Writes};
pub(crate) use reconciled::{OwnKind, Reconciled};
pub(crate) use transport::{Call, Doubt, Sender, Transport};
pub(crate) use write::{JSON, decode, encode};

use crate::request_path::is_segment;
use intercept::Interceptors;

/// Reads from the shared caches, writes to the server. Cheap to clone.
///
/// Everywhere reads see what this process wrote before. (One exception: a cache with a field selector, of which only the
/// server knows what it finds, is not waited for by a write to an object that it does not have.) Inside a reconcile
/// ([`Context::client`](crate::Context::client)) they are repeatable besides: each kind is read as it was at the first
/// read of it, and moves forward only past what this reconcile itself writes, and past what this process had written
/// before that first read to an object that is read only now. What other workers write meanwhile shows in the next
/// reconcile.
///
/// The informer without selectors answers, if a kind has several; of several that see a part each, the one that
/// this client's controller declared.
///
/// Reading a kind that no informer keeps is an error that says what to declare; [`Client::live`] asks the server.
#[derive(Clone)]
pub struct Client {
    pub(crate) core: Arc<Core>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) pins: Option<Arc<Pins>>,
    namespace: Option<Arc<str>>,
    dry_run: bool,
    interceptors: Interceptors,
}

/// The state that all clients of a manager share.
pub(crate) struct Core {
    pub(crate) transport: Transport,
    pub(crate) caches: Caches,
    pub(crate) writes: Writes,
    /// The field owners whose field sets the caches keep.
    pub(crate) field_owners: FieldOwners,
    pub(crate) applied: Applied,
    pub(crate) authors: Authors,
}

/// The side that answers the reads of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Cache,
    /// In tests that have no caches.
    Server,
}

/// On whose behalf a client writes.
pub(crate) struct Identity {
    pub(crate) field_owner: String,
    /// Asked right before every send, if only the leader may act.
    pub(crate) leader: Option<LeaderClock>,
    pub(crate) applies_skipped: Counter,
    /// Whether reads wait for own writes.
    pub(crate) consistent: bool,
    /// The informers that its controller declared, by number.
    pub(crate) informers: Vec<usize>,
    pub(crate) reads: Reads,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("field_owner", &self.identity.field_owner).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(core: Arc<Core>, identity: Arc<Identity>) -> Self {
        Client {
            core,
            identity,
            pins: None,
            namespace: None,
            dry_run: false,
            interceptors: Interceptors::default(),
        }
    }

    pub(crate) fn with_pins(&self, pins: Arc<Pins>) -> Self {
        Client { pins: Some(pins), ..self.clone() }
    }

    /// The name under which this client owns fields.
    pub fn field_owner(&self) -> &str {
        &self.identity.field_owner
    }

    /// The same client under another field owner.
    #[must_use]
    pub fn with_field_owner(&self, field_owner: &str) -> Self {
        let identity = Identity {
            field_owner: field_owner.to_owned(),
            leader: self.identity.leader.clone(),
            applies_skipped: self.identity.applies_skipped.clone(),
            consistent: self.identity.consistent,
            informers: self.identity.informers.clone(),
            reads: self.identity.reads,
        };
        Client { identity: Arc::new(identity), ..self.clone() }
    }

    /// The same client, whose writes the server checks and forgets.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Client { dry_run: true, ..self.clone() }
    }

    /// The same client, restricted to one namespace: it is supplied where a query, or a key or an object of a typed
    /// kind, names none, and another one is an error. Kinds outside of namespaces that are known only at run time
    /// cannot be listed with it.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Client { namespace: Some(namespace.into()), ..self.clone() }
    }

    /// The same client, with a hook that sees every call first and may refuse it: for tests of failure.
    #[must_use]
    pub fn intercept(
        &self,
        hook: impl Fn(&Intercepted<'_>) -> Result<(), ClientError> + Send + Sync + 'static,
    ) -> Self {
        Client { interceptors: self.interceptors.with(hook), ..self.clone() }
    }

    /// kube's client underneath, for what this one does not offer. It knows nothing of caches, leases and own
    /// writes.
    pub fn kube(&self) -> &kube::Client {
        self.core.transport.kube()
    }

    /// The reconcile that this client sends for.
    fn sender(&self) -> Option<Sender> {
        self.pins.as_ref().map(|pins| pins.sender().clone())
    }

    /// The key as this client means it: a restricted one supplies its namespace. A key that cannot be one of this kind
    /// would only ever look as if the object did not exist.
    fn key_for<K: Kind>(&self, key: impl KeyFor<K::Scope>) -> Result<Key, ClientError> {
        let key = key.into_key();
        match (K::namespaced(), key.namespace(), &self.namespace) {
            (true, None, Some(namespace)) => Ok(Key::new(Some(namespace), key.name())),
            (true, None, None) => Err(ClientError::Incomplete { kind: K::kind_name(), field: "namespace" }),
            (false, Some(_), _) => Err(ClientError::ClusterScoped { kind: K::kind_name(), key }),
            _ => Ok(key),
        }
    }

    /// The query as this client means it: a restricted one sees its own namespace alone.
    fn query_for<K: Kind>(&self, query: Query) -> Query {
        if K::namespaced() { self.query_within(query) } else { query }
    }

    /// As [`Client::query_for`], for a kind of which only the server knows whether it lives in namespaces.
    fn query_within(&self, query: Query) -> Query {
        match &self.namespace {
            Some(namespace) if query.namespace.is_none() => {
                Query { namespace: Some(namespace.to_string()), ..query }
            }
            _ => query,
        }
    }

    /// Whether the client may look there, and whether there is such a place.
    fn check_place(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<(), ClientError> {
        self.check_namespace(namespace)?;
        match [namespace, name].into_iter().flatten().find(|segment| !is_segment(segment)) {
            Some(bad) => {
                Err(ClientError::BadName { kind: resource.kind.clone().into(), name: bad.to_owned() })
            }
            None => Ok(()),
        }
    }

    fn check_namespace(&self, asked: Option<&str>) -> Result<(), ClientError> {
        match (&self.namespace, asked) {
            (Some(allowed), Some(asked)) if **allowed != *asked => {
                Err(ClientError::WrongNamespace { allowed: allowed.to_string(), asked: asked.to_owned() })
            }
            _ => Ok(()),
        }
    }
}
