//! Sources: events on their way to the queue.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;

use super::reconcile::Request;
use crate::client::HeldInformer;
use crate::informer::Object;
use crate::informer::{Event, InformerMetrics, SubscribeOptions, SyncHandle};
use crate::predicate::{Change, Predicate};
use crate::queue::{Priority, Reason, Trigger, WorkQueue};

/// Appends the requests that a change asks for.
type Requests = dyn Fn(&Change<'_>, &mut Vec<Request>) + Send + Sync;

/// From an event to the requests that it queues.
#[derive(Clone)]
pub(super) struct Map {
    requests: Arc<Requests>,
    /// Takes less time than to wake a task that does it.
    quick: bool,
}

impl Map {
    fn quick(requests: impl Fn(&Change<'_>, &mut Vec<Request>) + Send + Sync + 'static) -> Self {
        Map { requests: Arc::new(requests), quick: true }
    }
}

/// Where events come from.
pub(super) enum Origin {
    Informer { informer: HeldInformer, map: Map },
    Channel { receiver: Mutex<Option<mpsc::Receiver<Request>>> },
}

/// One source of a controller.
pub(super) struct Source {
    pub(super) origin: Origin,
    /// The kind, or the channel's name.
    pub(super) name: crate::queue::Source,
    pub(super) predicates: Vec<Predicate>,
}

/// What [`Source::begin`] gives: the task to run and what tells that the initial objects are queued.
pub(super) struct Begun {
    pub(super) task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) synced: Option<SyncHandle>,
}

impl Source {
    /// The informer it listens to, unless it is a channel.
    pub(super) fn informer(&self) -> Option<&HeldInformer> {
        match &self.origin {
            Origin::Informer { informer, .. } => Some(informer),
            Origin::Channel { .. } => None,
        }
    }

    /// Begins to listen; nothing is delivered before the task is polled.
    pub(super) fn begin(
        &self,
        queue: &WorkQueue<Request>,
        all: &[Predicate],
        resync: Option<Duration>,
    ) -> Begun {
        let queue = queue.clone();
        let name = self.name;
        match &self.origin {
            Origin::Informer { informer, map } => {
                let options = SubscribeOptions { resync, ..SubscribeOptions::default() };
                let predicates: Vec<Predicate> = self.predicates.iter().chain(all).cloned().collect();
                let metrics = Arc::clone(informer.metrics());
                let way = Arc::new(Way { name, predicates, map: map.clone(), queue, metrics });
                let mut subscription = if map.quick {
                    let way = Arc::clone(&way);
                    informer.subscribe_directly(&options, Box::new(move |event| way.take(event)))
                } else {
                    informer.subscribe(&options)
                };
                let synced = Some(subscription.sync_handle());
                let task = Box::pin(async move {
                    while let Some(event) = subscription.recv().await {
                        way.take(&event);
                        tokio::task::coop::consume_budget().await;
                    }
                });
                Begun { task, synced }
            }
            Origin::Channel { receiver } => {
                let receiver = receiver.lock().expect("no holder of this lock panics").take();
                let task = Box::pin(async move {
                    let Some(mut receiver) = receiver else { return };
                    while let Some(request) = receiver.recv().await {
                        queue.add_with(&request, Priority::DEFAULT, Reason::new(name, Trigger::External));
                    }
                });
                Begun { task, synced: None }
            }
        }
    }
}

/// The way from an informer to the queue.
struct Way {
    name: crate::queue::Source,
    predicates: Vec<Predicate>,
    map: Map,
    queue: WorkQueue<Request>,
    metrics: Arc<InformerMetrics>,
}

impl Way {
    /// Queues what an event asks for. One event that a predicate or a mapping panics on must not silence all others.
    fn take(&self, event: &Event) {
        self.guarded("a mapping panicked", event, || self.queue(event));
    }

    /// What an author's function says of an event, unless it panics.
    fn guarded<T>(&self, what: &str, event: &Event, ask: impl FnOnce() -> T) -> Option<T> {
        let said = std::panic::catch_unwind(AssertUnwindSafe(ask)).ok();
        if said.is_none() {
            self.metrics.handler_panics.add(1);
            let (controller, source) = (self.queue.name(), self.name.name());
            tracing::error!(controller, source, object = %event.key(), "{what}");
        }
        said
    }

    fn queue(&self, event: &Event) {
        let change = change(event);
        let passes = || self.predicates.iter().all(|predicate| predicate.test(&change));
        // One reconcile too many does no harm; one that is missing may be missing for hours.
        if !self.guarded("a predicate panicked", event, passes).unwrap_or(true) {
            return;
        }
        let priority = match change.trigger {
            Trigger::Initial | Trigger::Resync => Priority::LOW,
            _ => Priority::DEFAULT,
        };
        let mut requests = Vec::new();
        (self.map.requests)(&change, &mut requests);
        requests.sort_unstable();
        requests.dedup();
        for request in requests {
            self.queue.add_with(&request, priority, Reason::new(self.name, change.trigger));
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

/// The object itself.
pub(super) fn map_self() -> Map {
    Map::quick(|change, requests| {
        if let Some(object) = change.object() {
            requests.push(Request::from(object.key().clone()));
        }
    })
}

/// The owners of a kind, of the old and the new object: the controller only, or all.
pub(super) fn map_owner(group: String, kind: String, namespaced: bool, every: bool) -> Map {
    Map::quick(move |change, requests| {
        let mut old_owners: Option<&[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference]> = None;
        for object in change.objects() {
            let owners = object.owner_references();
            // Most updates leave the owners as they are.
            if old_owners.is_some_and(|old| std::ptr::eq(old, owners) || old == owners) {
                continue;
            }
            old_owners = Some(owners);
            for owner in owners.iter().filter(|owner| every || owner.controller == Some(true)) {
                let owner_group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
                if owner.kind == kind && owner_group == group {
                    requests.push(match object.key().namespace().filter(|_| namespaced) {
                        Some(namespace) => Request::namespaced(namespace, &owner.name),
                        None => Request::cluster(&owner.name),
                    });
                }
            }
        }
    })
}

/// What a function of one object says, for the old and the new one.
pub(super) fn map_objects(map: impl Fn(&Object) -> Vec<Request> + Send + Sync + 'static) -> Map {
    map_changes(move |change| change.objects().flat_map(&map).collect())
}

/// What a function of an author says: it may take its time, on a task of its own.
pub(super) fn map_changes(map: impl Fn(&Change<'_>) -> Vec<Request> + Send + Sync + 'static) -> Map {
    Map { requests: Arc::new(move |change, requests| requests.extend(map(change))), quick: false }
}
