//! Informers: one watch and one cache for a target, any number of handlers.
//!
//! [`InformerFactory`] hands out a [`SharedInformer`] for each [`Target`]. An informer consists of public parts, from
//! which a cache can also be built by hand: a [`ListerWatcher`] talks to the server, a [`Reflector`] turns lists and
//! watches into [`Delta`]s, a [`Store`] keeps the objects and answers each delta with [`Event`]s. A reflector of your
//! own fills a [`DeltaQueue`]; [`Pump`] runs reflector and queue together.

mod collect;
mod factory;
mod sync;
mod pump;
mod shared;
mod reflector;
mod delta_queue;
mod guard;
mod watch;
mod cache;
mod metrics;
mod failure;

pub use cache::{
    DEFAULT_DECODED_BYTES, DecodeError, Delta, Event, FieldOwners, Index, IndexConflict, IndexFn,
    LabelMatcher, Labels, ListError, Lister, MAX_OWNERS, ManagedFields, Object, ObjectError, ObjectOptions,
    Progress, Scope, SelectorError, Snapshot, Store, Transform, Uid, UnknownIndex, Waited, remove_paths,
};
pub use collect::InformerCollector;
pub use delta_queue::DeltaQueue;
pub use factory::{FactoryOptions, InformerFactory, InformerOptions};
pub use failure::WatchFailure;
pub use metrics::{Counter, InformerMetrics};
pub use pump::Pump;
pub use reflector::{Reflector, ReflectorOptions};
pub use shared::{
    DEFAULT_MAILBOX_CAPACITY, HandlerLag, HandlerRegistration, SharedInformer, SubscribeOptions,
    Subscription, SyncHandle,
};
pub use sync::{CacheSync, wait_for_cache_sync};
pub use watch::{
    ClientListerWatcher, Connect, ListRequest, ListerWatcher, Namespaces, Target, WatchRequest, WatchStream,
};

pub use crate::revision::{Revision, parse_revision};

pub(crate) use cache::ManagedFieldsJson;
pub(crate) use shared::{WeakInformer, missing};
pub(crate) use watch::ConnectionExecutor;
