//! Shared informers: one watch and one cache for a target, any number of handlers.

mod informer;
mod feed;
mod subscription;
mod core;
mod relist;
mod shared_mailbox;
mod mailbox;
#[cfg(test)]
mod mailbox_tests;
#[cfg(test)]
mod subscription_tests;

pub(crate) use self::core::Core;
pub(crate) use feed::{FeedOptions, types};
pub use informer::{HandlerRegistration, SharedInformer};
pub(crate) use informer::{WeakInformer, missing};
pub use mailbox::{DEFAULT_MAILBOX_CAPACITY, SubscribeOptions};
pub use shared_mailbox::{HandlerLag, SyncHandle};
pub use subscription::Subscription;
