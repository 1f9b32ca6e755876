//! One watch, one cache, any number of handlers.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::core::Core;
use super::feed::FeedOptions;
use super::mailbox::SubscribeOptions;
use super::shared_mailbox::{Direct, HandlerLag, SharedMailbox, SyncHandle};
use super::subscription::Subscription;
use crate::informer::cache::Event;
use crate::informer::cache::{Index, IndexConflict, Lister, Store};
use crate::informer::metrics::InformerMetrics;
use crate::informer::watch::Target;
use crate::revision::Revision;

/// An informer that everyone in the process shares who watches the same target.
///
/// Clones are the same informer. When the last clone is dropped its watches end.
#[derive(Clone)]
pub struct SharedInformer(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    feed: Mutex<Option<Box<FeedOptions>>>,
}

impl Drop for Inner {
    /// The tasks end with their set; subscriptions learn that nothing more comes.
    fn drop(&mut self) {
        // Starting an informer outside a runtime panics with a lock held; a drop must not panic again.
        let tasks = self.core.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(tasks);
        let subscribers = self.core.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for mailbox in subscribers.iter().filter_map(Weak::upgrade) {
            mailbox.close();
        }
    }
}

impl SharedInformer {
    pub(crate) fn new(core: Core, feed: FeedOptions) -> Self {
        let inner = Inner { core: Arc::new(core), feed: Mutex::new(Some(Box::new(feed))) };
        SharedInformer(Arc::new(inner))
    }

    /// The objects that are watched.
    pub fn target(&self) -> &Target {
        self.0.core.target()
    }

    /// Makes an informer of metadata one of the whole objects of `target`, fed as `feed` says; whether it could. One
    /// that was started, or that changes what it caches, stays as it is.
    pub(crate) fn widen(&self, target: &Target, feed: impl FnOnce(&Core) -> FeedOptions) -> bool {
        let mut known = self.0.feed.lock().expect("no holder of this lock panics");
        let Some(options) = known.as_mut().filter(|options| options.ingest.transform.is_none()) else {
            return false;
        };
        let core = &self.0.core;
        core.whole.get_or_init(|| Box::new(target.clone()));
        **options = feed(core);
        true
    }

    /// The cache.
    pub fn store(&self) -> &Store {
        &self.0.core.store
    }

    /// Typed reads from the cache.
    pub fn lister<K: serde::de::DeserializeOwned + Send + Sync + 'static>(&self) -> Lister<K> {
        Lister::new(self.0.core.store.clone())
    }

    /// Adds an index to the cache, before or after the start.
    ///
    /// # Errors
    /// When there is one with that name.
    pub fn add_index(&self, index: Index) -> Result<(), IndexConflict> {
        self.0.core.store.add_index(index)
    }

    /// Whether the cache holds a full state, in every namespace that is watched.
    pub fn has_synced(&self) -> bool {
        self.0.core.synced.is_set()
    }

    /// Waits until [`SharedInformer::has_synced`].
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_synced(&self) {
        self.0.core.synced.wait().await;
    }

    /// The resourceVersion that the cache has reached, or nothing before the first sync.
    pub fn last_sync_resource_version(&self) -> Option<String> {
        Some(self.0.core.store.revision())
            .filter(|revision| *revision != 0)
            .map(|revision| revision.to_string())
    }

    /// Numbers for metrics.
    pub fn metrics(&self) -> &Arc<InformerMetrics> {
        &self.0.core.metrics
    }

    /// How far each handler is behind.
    pub fn handler_lags(&self) -> Vec<HandlerLag> {
        let subscribers = self.0.core.subscribers.lock().expect("no holder of this lock panics");
        subscribers.iter().filter_map(Weak::upgrade).map(|mailbox| mailbox.lag()).collect()
    }

    /// Begins a subscription. What is cached already comes first, as additions that are marked initial.
    pub fn subscribe(&self, options: &SubscribeOptions) -> Subscription {
        Subscription::begin(&self.0.core, options, None)
    }

    /// As [`SharedInformer::subscribe`]; `direct` handles some events before the subscription could tell of them.
    pub(crate) fn subscribe_directly(&self, options: &SubscribeOptions, direct: Direct) -> Subscription {
        Subscription::begin(&self.0.core, options, Some(direct))
    }

    /// Calls `handler` for each event, one at a time, on a task of this informer, until the registration is dropped
    /// or the informer ends. The handler must not hold the informer: neither would ever end.
    pub fn add_handler<F>(&self, options: &SubscribeOptions, mut handler: F) -> HandlerRegistration
    where
        F: FnMut(Event) + Send + 'static,
    {
        let mut subscription = self.subscribe(options);
        let synced = subscription.sync_handle();
        let mailbox = subscription.mailbox();
        let metrics = self.0.core.metrics.clone();
        let task = self.0.core.spawn(async move {
            while let Some(event) = subscription.recv().await {
                // A handler's own state may be torn by its panic; that is for its author to mend, and one bad event
                // must not silence all others.
                if std::panic::catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
                    metrics.handler_panics.add(1);
                    tracing::error!("an event handler panicked");
                }
                tokio::task::coop::consume_budget().await;
            }
        });
        let task = task.expect("an informer lives while it is called");
        HandlerRegistration { task, synced, mailbox }
    }

    /// Begins to watch; more calls change nothing. Must be called within a tokio runtime.
    pub fn start(&self) {
        let feed = self.0.feed.lock().expect("no holder of this lock panics").take();
        if let Some(options) = feed {
            let core = &self.0.core;
            let trained = Arc::downgrade(core);
            core.training.when_due(move || {
                if let Some(core) = trained.upgrade() {
                    let own = core.clone();
                    core.spawn(async move { own.training.run(&own.store).await });
                }
            });
            core.spawn(super::feed::run(core.clone(), *options));
        }
    }

    /// Asks the server for the newest state. Everything that is true now is in the cache once
    /// [`Progress::relists`](crate::informer::cache::Progress::relists) has reached the number that this returns.
    pub(crate) fn relist(&self) -> u64 {
        self.0.core.relists.ask()
    }

    /// Waits until every scope has finished the relist with this number.
    pub(crate) async fn wait_relisted(&self, number: u64) {
        let store = self.store();
        loop {
            let changed = store.next_change();
            if store.snapshot().relists() >= number {
                return;
            }
            changed.await;
        }
    }

    /// Relists at `at`, or at an earlier time that was asked for, unless every scope of the cache has reached `unless` by
    /// then.
    pub(crate) fn relist_at(&self, at: Instant, unless: Revision) {
        let core = &self.0.core;
        if core.relists.falls_due(at, unless) {
            let own = core.clone();
            core.spawn(async move {
                tokio::time::sleep_until(at).await;
                own.relists.fall_due(at, own.store.revision());
            });
        }
    }

    pub(crate) fn downgrade(&self) -> WeakInformer {
        WeakInformer(Arc::downgrade(&self.0))
    }
}

/// A handler that was added; dropping it removes the handler.
#[must_use = "dropping it removes the handler"]
pub struct HandlerRegistration {
    task: AbortHandle,
    synced: SyncHandle,
    mailbox: Weak<SharedMailbox>,
}

impl HandlerRegistration {
    /// Whether the handler has returned from every initial addition.
    pub fn has_synced(&self) -> bool {
        self.synced.has_synced()
    }

    /// A handle to wait with.
    pub fn sync_handle(&self) -> SyncHandle {
        self.synced.clone()
    }

    /// How far the handler is behind.
    pub fn lag(&self) -> HandlerLag {
        self.mailbox.upgrade().map(|mailbox| mailbox.lag()).unwrap_or_default()
    }
}

impl Drop for HandlerRegistration {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
pub(crate) struct WeakInformer(Weak<Inner>);

impl WeakInformer {
    pub fn upgrade(&self) -> Option<SharedInformer> {
        self.0.upgrade().map(SharedInformer)
    }
}

/// The kinds of those that have not synced, each with why, as far as it is known.
pub(crate) fn missing(informers: &[SharedInformer]) -> String {
    let missing = informers.iter().filter(|informer| !informer.has_synced()).map(|informer| {
        let kind = &informer.target().resource.kind;
        informer
            .metrics()
            .last_failure()
            .map_or_else(|| kind.clone(), |failure| format!("{kind} ({failure})"))
    });
    missing.collect::<Vec<_>>().join(", ")
}
