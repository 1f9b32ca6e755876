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

pub mod client;
mod clock;
mod conditions;
mod controller;
mod error;
mod finalizer;
mod health;
mod lease;
mod manager;
pub mod metrics;
pub mod predicate;
pub mod queue;
mod reconcile;
pub mod recorder;
mod shutdown;

pub mod manifests;
pub mod program;

pub use cache::{
    DEFAULT_DECODED_BYTES, DecodeError, FieldOwners, Index, IndexConflict, IndexFn, LabelMatcher, Labels,
    ListError, Lister, ManagedFields, Object, ObjectError, Progress, Scope, SelectorError, Snapshot, Store,
    Transform, Uid, UnknownIndex, Waited, remove_paths,
};
pub use delta::{Delta, DeltaQueue};
pub use factory::{Connect, FactoryOptions, InformerFactory, InformerOptions};
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

pub use client::{Client, DeleteOptions, Kind, Patch, Propagation, Query, Upserted};
pub use clock::{system_clock, tokio_clock};
pub use conditions::{Conditions, condition_of, is_true, set_condition};
pub use controller::{Context, Controller, ControllerHandle, DEFAULT_CONCURRENCY, SetupError};
pub use error::{ClientError, Error, NotFoundExt};
pub use finalizer::{Lifecycle, add_finalizer, has_finalizer, remove_finalizer};
pub use health::Checks;
pub use lease::{LeaderClock, LeaderElection, LeaderElectionError};
pub use manager::{Addresses, Manager, ManagerError, ManagerOptions};
pub use predicate::{Change, Predicate};
pub use queue::{Priority, RateLimiter, Reason, Reasons, Trigger};
pub use reconcile::{Action, Reconciler, Request};
pub use recorder::{EventType, Recorder};
pub use shutdown::Signals;
