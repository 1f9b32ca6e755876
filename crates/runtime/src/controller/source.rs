//! Sources: events on their route to the queue.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use super::mapping::Map;
use super::watch::Watch;
use crate::client::{HeldInformer, OwnKind};
use crate::informer::{Event, InformerMetrics, SubscribeOptions, SyncHandle};
use crate::key::Key;
use crate::predicate::{Change, Predicate};
use crate::queue::{Priority, Reason, SourceName, Trigger, WorkQueue};

/// The origin of events.
pub(super) enum Origin {
    Informer { informer: HeldInformer, map: Map },
    Channel { receiver: Mutex<Option<mpsc::Receiver<Key>>> },
}

/// One source of a controller.
pub(super) struct Source {
    pub(super) origin: Origin,
    /// The kind, or the channel's name.
    pub(super) name: SourceName,
    pub(super) predicates: Vec<Predicate>,
}

/// The result of [`Source::begin`]: the task to run, and a handle that tells when the initial objects are queued.
pub(super) struct Begun {
    pub(super) task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) synced: Option<SyncHandle>,
}

impl Source {
    /// The source of a watch, or `None` if it queues owners and the controller has no kind of its own.
    pub(super) fn of_watch(informer: HeldInformer, watch: Watch, own: Option<&OwnKind>) -> Option<Self> {
        let name = SourceName::named(&informer.target().resource.kind);
        let (map, predicates) = watch.resolve(own)?;
        Some(Source { origin: Origin::Informer { informer, map }, name, predicates })
    }

    /// Begins to listen; nothing is delivered before the task is polled.
    pub(super) fn begin(&self, queue: &WorkQueue<Key>, all: &[Predicate], resync: Option<Duration>) -> Begun {
        let queue = queue.clone();
        let name = self.name;
        match &self.origin {
            Origin::Informer { informer, map } => {
                let options = SubscribeOptions { resync, ..SubscribeOptions::default() };
                let predicates: Vec<Predicate> = self.predicates.iter().chain(all).cloned().collect();
                let metrics = Arc::clone(informer.metrics());
                let route = Arc::new(EventRoute { name, predicates, map: map.clone(), queue, metrics });
                let mut subscription = if map.quick {
                    let route = Arc::clone(&route);
                    informer.subscribe_directly(&options, Box::new(move |event| route.take(event)))
                } else {
                    informer.subscribe(&options)
                };
                let synced = Some(subscription.sync_handle());
                let task = Box::pin(async move {
                    while let Some(event) = subscription.recv().await {
                        route.take(&event);
                        tokio::task::coop::consume_budget().await;
                    }
                });
                Begun { task, synced }
            }
            Origin::Channel { receiver } => {
                let receiver = receiver.lock().expect("no holder of this lock panics").take();
                let task = Box::pin(async move {
                    let Some(mut receiver) = receiver else { return };
                    while let Some(key) = receiver.recv().await {
                        queue.add_with(&key, Priority::DEFAULT, Reason::new(name, Trigger::External));
                    }
                });
                Begun { task, synced: None }
            }
        }
    }
}

/// The route of events from an informer to the queue.
struct EventRoute {
    name: SourceName,
    predicates: Vec<Predicate>,
    map: Map,
    queue: WorkQueue<Key>,
    metrics: Arc<InformerMetrics>,
}

impl EventRoute {
    /// Queues what an event asks for. One event that a predicate or a mapping panics on must not silence all others.
    fn take(&self, event: &Event) {
        self.guarded("mapping", event, || self.queue(event));
    }

    /// Returns the answer of an author's function to an event, or `None` if it panicked.
    fn guarded<T>(&self, function: &str, event: &Event, ask: impl FnOnce() -> T) -> Option<T> {
        let said = std::panic::catch_unwind(AssertUnwindSafe(ask)).ok();
        if said.is_none() {
            self.metrics.handler_panics.add(1);
            let (controller, source) = (self.queue.name(), self.name.name());
            tracing::error!(controller, source, object = %event.key(), function, "an author's function panicked");
        }
        said
    }

    fn queue(&self, event: &Event) {
        let change = change(event);
        let passes = || self.predicates.iter().all(|predicate| predicate.test(&change));
        // One reconcile too many does no harm; one that is missing may be missing for hours.
        if !self.guarded("predicate", event, passes).unwrap_or(true) {
            return;
        }
        let priority = match change.trigger {
            Trigger::Initial | Trigger::Resync => Priority::LOW,
            _ => Priority::DEFAULT,
        };
        // A resync is no write.
        let revision = if change.trigger == Trigger::Resync { 0 } else { event.object().revision() };
        let mut keys = Vec::new();
        (self.map.keys)(&change, &mut keys);
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.queue.add_with(&key, priority, Reason::new(self.name, change.trigger).at(revision));
        }
    }
}

fn change(event: &Event) -> Change<'_> {
    match event {
        Event::Add { object, is_initial } => {
            let trigger = if *is_initial { Trigger::Initial } else { Trigger::Added };
            Change { trigger, old: None, new: Some(object) }
        }
        Event::Update { old, new } => {
            let trigger = if event.is_resync() { Trigger::Resync } else { Trigger::Updated };
            Change { trigger, old: Some(old), new: Some(new) }
        }
        Event::Delete { object, .. } => Change { trigger: Trigger::Deleted, old: Some(object), new: None },
    }
}
