//! Setpoint: Kubernetes operators in Rust.
#![deny(missing_docs)]

mod key;
mod revision;

mod watch;

mod delta;
mod reflector;

mod pump;

mod cache;

mod informer;

mod factory;

pub use cache::{
    DEFAULT_DECODED_BYTES, DecodeError, FieldOwners, Index, IndexConflict, IndexFn, LabelMatcher, Labels,
    ListError, Lister, ManagedFields, Object, ObjectError, Progress, Scope, SelectorError, Snapshot, Store,
    Transform, Uid, UnknownIndex, Waited, remove_paths,
};
pub use delta::{Delta, DeltaQueue};
pub use factory::{Connect, FactoryOptions, InformerFactory};
pub use informer::{
    Counter, DEFAULT_MAILBOX_CAPACITY, Event, HandlerLag, HandlerRegistration, InformerMetrics,
    SharedInformer, SubscribeOptions, Subscription, SyncHandle, wait_for_cache_sync,
};
pub use key::{Key, KeyError, join_key, split_key};
pub use pump::Pump;
pub use reflector::{Reflector, ReflectorOptions};
pub use revision::{Revision, parse_revision};
pub use setpoint_api::{Clock, Random};
pub use watch::{
    ClientListerWatcher, ListRequest, ListerWatcher, Namespaces, Target, WatchFailure, WatchRequest,
    WatchStream,
};
