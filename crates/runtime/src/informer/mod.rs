//! Shared informers: one watch and one cache for a target, any number of handlers.

mod collect;
mod event;
mod feed;
mod mailbox;
#[cfg(test)]
mod mailbox_tests;
mod metrics;
mod relist;
mod shared;
mod subscription;
#[cfg(test)]
mod subscription_tests;
mod sync;
mod transform;

pub use collect::InformerCollector;
pub use event::Event;
pub(crate) use feed::{FeedOptions, types};
pub use mailbox::{DEFAULT_MAILBOX_CAPACITY, SubscribeOptions};
pub use metrics::{Counter, InformerMetrics};
pub(crate) use shared::{Core, WeakInformer, missing};
pub use shared::{HandlerRegistration, SharedInformer};
pub use subscription::{HandlerLag, Subscription, SyncHandle};
pub use sync::{CacheSync, wait_for_cache_sync};
pub(crate) use transform::guarded;
