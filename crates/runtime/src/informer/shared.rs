//! One watch, one cache, any number of handlers.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::event::Event;
use super::feed::FeedOptions;
use super::mailbox::SubscribeOptions;
use super::metrics::InformerMetrics;
use super::relist::Relists;
use super::subscription::{Direct, HandlerLag, Postbox, Resync, Subscription, SyncHandle};
use crate::cache::{Index, IndexConflict, Lister, Scope, Snapshot, Store, Training};
use crate::delta::Delta;
use crate::latch::Latch;
use crate::revision::Revision;
use crate::watch::Target;

/// An informer that everyone in the process shares who watches the same target.
///
/// Clones are the same informer. When the last clone is dropped its watches end.
#[derive(Clone)]
pub struct SharedInformer(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    feed: Mutex<Option<Box<FeedOptions>>>,
}

/// What an informer's tasks and its handles share.
pub(crate) struct Core {
    target: Target,
    /// The same of whole objects: somebody asked for them before the informer of their metadata was started.
    whole: OnceLock<Box<Target>>,
    pub store: Store,
    pub metrics: Arc<InformerMetrics>,
    pub training: Arc<Training>,
    pub relists: Relists,
    /// Held while a change is applied and delivered, so that a late handler gets each change exactly once.
    subscribers: Mutex<Vec<Weak<Postbox>>>,
    synced: Latch,
    /// The set of namespaces is not known yet, so nothing is complete.
    awaits_namespaces: AtomicBool,
    /// None once the informer has ended.
    tasks: Mutex<Option<JoinSet<()>>>,
}

impl Core {
    pub fn new(target: Target, store: Store) -> Self {
        Core {
            target,
            whole: OnceLock::new(),
            training: Arc::new(Training::new(store.base_bytes().clone())),
            store,
            metrics: Arc::default(),
            relists: Relists::default(),
            subscribers: Mutex::default(),
            synced: Latch::default(),
            awaits_namespaces: AtomicBool::new(false),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// What is watched; of whole objects once they were asked for in time.
    pub fn target(&self) -> &Target {
        self.whole.get().map_or(&self.target, |whole| whole)
    }

    /// Runs `task` for as long as the informer lives; `None` when it has ended.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        let tasks = tasks.as_mut()?;
        // Handlers that were removed meanwhile leave their ended tasks behind.
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }

    /// Applies changes to the cache, then tells the handlers. Tells whether one of them was a full state.
    pub fn process(&self, scope: &Scope, deltas: impl IntoIterator<Item = Delta>) -> bool {
        let mut subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        let mut events = Vec::new();
        let mut replaced = false;
        let deltas = deltas.into_iter().inspect(|delta| replaced |= matches!(delta, Delta::Replaced { .. }));
        self.store.apply_all(scope, deltas, &mut events);
        let at_once = deliver(&mut subscribers, &events);
        drop(subscribers);
        at_once.iter().for_each(|postbox| postbox.handle(&events));
        replaced
    }

    /// Forgets a namespace, with a deletion for each of its objects.
    pub fn forget(&self, scope: &Scope) {
        let mut subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        let events = self.store.remove_scope(scope);
        let at_once = deliver(&mut subscribers, &events);
        drop(subscribers);
        at_once.iter().for_each(|postbox| postbox.handle(&events));
    }

    /// Whether nobody holds the subscribers.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.subscribers.try_lock().is_ok()
    }

    /// Nothing is complete before the namespaces are known.
    pub fn await_namespaces(&self) {
        self.awaits_namespaces.store(true, Ordering::Release);
    }

    /// The namespaces that exist now are all declared.
    pub fn namespaces_known(&self) {
        self.awaits_namespaces.store(false, Ordering::Release);
        self.mark_synced_if_complete();
    }

    /// Tells everyone, once, when every scope has had its first full state.
    pub fn mark_synced_if_complete(&self) {
        if self.awaits_namespaces.load(Ordering::Acquire) || !self.store.all_scopes_synced() {
            return;
        }
        let subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        if !self.synced.set() {
            return;
        }
        self.training.synced();
        for postbox in subscribers.iter().filter_map(Weak::upgrade) {
            postbox.mark_upstream_synced();
        }
    }

    /// What is cached, and where in `postbox` the events end that tell of it. Between the two nothing comes.
    pub(super) fn begin_resync(&self, postbox: &Postbox) -> (Snapshot, u64) {
        let _subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        (self.store.snapshot(), postbox.end())
    }

    pub(super) fn subscribe(
        self: &Arc<Self>,
        options: &SubscribeOptions,
        direct: Option<Direct>,
    ) -> Subscription {
        let resync = Resync::new(options);
        let mut subscribers = self.subscribers.lock().expect("no holder of this lock panics");
        let postbox = Postbox::new(options.capacity, direct, self.metrics.clone());
        let present = self.store.snapshot();
        postbox.deliver(present.iter().map(|object| Event::Add { object: object.clone(), is_initial: true }));
        if self.synced.is_set() {
            postbox.mark_upstream_synced();
        }
        let subscription = Subscription::new(postbox, Arc::downgrade(self), resync);
        // Of a kind at rest no event comes by to leave out those that are gone.
        subscribers.retain(|postbox| postbox.strong_count() > 0);
        subscribers.push(subscription.postbox());
        subscription
    }
}

impl Drop for Inner {
    /// The tasks end with their set; subscriptions learn that nothing more comes.
    fn drop(&mut self) {
        // Whoever starts an informer outside a runtime panics with a lock held; a drop must not panic again.
        let tasks = self.core.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(tasks);
        let subscribers = self.core.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        for postbox in subscribers.iter().filter_map(Weak::upgrade) {
            postbox.close();
        }
    }
}

/// Leaves the events with the handlers. Those that it gives back are to handle them at once, which runs code of others:
/// not while the subscribers are locked, or it could neither subscribe nor be slow without holding up everyone.
#[must_use]
fn deliver(subscribers: &mut Vec<Weak<Postbox>>, events: &[Event]) -> Vec<Arc<Postbox>> {
    let mut at_once = Vec::new();
    if events.is_empty() {
        return at_once;
    }
    subscribers.retain(|postbox| {
        let Some(postbox) = postbox.upgrade() else { return false };
        if !postbox.hand_over(events) {
            at_once.push(postbox);
        }
        true
    });
    at_once
}

impl SharedInformer {
    pub(crate) fn new(core: Core, feed: FeedOptions) -> Self {
        let inner = Inner { core: Arc::new(core), feed: Mutex::new(Some(Box::new(feed))) };
        SharedInformer(Arc::new(inner))
    }

    /// What is watched.
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
        subscribers.iter().filter_map(Weak::upgrade).map(|postbox| postbox.lag()).collect()
    }

    /// Begins a subscription. What is cached already comes first, as additions that are marked initial.
    pub fn subscribe(&self, options: &SubscribeOptions) -> Subscription {
        self.0.core.subscribe(options, None)
    }

    /// As [`SharedInformer::subscribe`]; `direct` handles some events before the subscription could tell of them.
    pub(crate) fn subscribe_directly(&self, options: &SubscribeOptions, direct: Direct) -> Subscription {
        self.0.core.subscribe(options, Some(direct))
    }

    /// Calls `handler` for each event, one at a time, on a task of this informer, until the registration is dropped
    /// or the informer ends. The handler must not hold the informer: neither would ever end.
    pub fn add_handler<F>(&self, options: &SubscribeOptions, mut handler: F) -> HandlerRegistration
    where
        F: FnMut(Event) + Send + 'static,
    {
        let mut subscription = self.subscribe(options);
        let synced = subscription.sync_handle();
        let postbox = subscription.postbox();
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
        HandlerRegistration { task, synced, postbox }
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
    /// [`Progress::relists`](crate::cache::Progress::relists) has reached the number that this returns.
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
    postbox: Weak<Postbox>,
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
        self.postbox.upgrade().map(|postbox| postbox.lag()).unwrap_or_default()
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
