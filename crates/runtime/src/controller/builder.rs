//! Declaring a controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arrivals::Arrivals;
use super::handle::ControllerHandle;
use super::reconcile::Reconciler;
use super::report::Reporter;
use super::source::{Origin, Source};
use super::watch::Watch;
use super::worker::Work;
use crate::client::{HeldInformer, Identity, Kind, OwnKind, Reads};
use crate::informer::SharedInformer;
use crate::informer::Target;
use crate::key::Key;
use crate::manager::{Group, Manager, SetupError, SyncDeadline};
use crate::predicate::Predicate;
use crate::queue::{QueueOptions, RateLimiter, SourceName, WorkQueue};
use crate::recorder::EventApi;

/// The default number of objects that a controller reconciles at a time. It never reconciles one object twice at a
/// time, whatever the number.
pub const DEFAULT_CONCURRENCY: usize = 4;

/// Declares a controller step by step. [`Controller::register`] ends the declaration.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use k8s_openapi::api::core::v1::Pod;
/// use setpoint::{Action, Context, Controller, Key, Manager, Watch, predicate};
///
/// fn register(manager: &Manager) -> Result<(), setpoint::SetupError> {
///     Controller::for_kind::<Deployment>(manager)
///         .with_predicate(predicate::generation_changed())
///         .owns::<ReplicaSet>()
///         .watches(Watch::of::<Pod>().map(|pod| {
///             let app = pod.labels().get("app");
///             app.map(|app| Key::namespaced(pod.namespace().unwrap_or_default(), app)).into_iter().collect()
///         }))
///         .concurrency(5)
///         .register(|_ctx: Context, key: Key| async move {
///             tracing::info!(%key, "reconciling");
///             Ok(Action::done())
///         })?;
///     Ok(())
/// }
/// ```
#[must_use = "nothing happens before `register`"]
pub struct Controller {
    manager: Manager,
    name: String,
    primary: Option<Target>,
    primary_namespaced: bool,
    sources: Vec<Declared>,
    reads: Vec<HeldInformer>,
    own_predicates: Vec<Predicate>,
    predicates: Vec<Predicate>,
    concurrency: usize,
    limiter: RateLimiter,
    fair: bool,
    reconcile_timeout: Option<Duration>,
    cache_sync_timeout: Duration,
    resync: Option<Duration>,
    field_owner: Option<String>,
    events: Option<(String, EventApi)>,
    leader_elected: bool,
    read_your_writes: bool,
}

/// A source as it was declared.
enum Declared {
    Watch(HeldInformer, Watch),
    Channel(Source),
}

impl Controller {
    /// A controller for the objects of one kind. Its name is the kind in lower case.
    pub fn for_kind<K: Kind>(manager: &Manager) -> Self {
        let controller = Controller::for_target(manager, manager.target::<K>());
        if K::namespaced() { controller } else { controller.cluster_scoped() }
    }

    /// A controller for a part of the objects of one kind, or a kind that is known only at run time.
    pub fn for_target(manager: &Manager, target: Target) -> Self {
        let mut controller = Controller::new(manager, &target.resource.kind.to_lowercase());
        controller.primary = Some(target.clone());
        controller.watches(Watch::of_target(target).by_self())
    }

    /// A controller without a kind of its own.
    pub fn new(manager: &Manager, name: &str) -> Self {
        Controller {
            resync: manager.jittered_resync(),
            manager: manager.clone(),
            name: name.to_owned(),
            primary: None,
            primary_namespaced: true,
            sources: Vec::new(),
            reads: Vec::new(),
            own_predicates: Vec::new(),
            predicates: Vec::new(),
            concurrency: DEFAULT_CONCURRENCY,
            limiter: RateLimiter::default(),
            fair: true,
            reconcile_timeout: None,
            cache_sync_timeout: manager.cache_sync_timeout(),
            field_owner: None,
            events: None,
            leader_elected: true,
            read_your_writes: true,
        }
    }

    /// Declares that a kind given by [`Controller::for_target`] lives in no namespace: the names of owners are then
    /// their keys.
    pub fn cluster_scoped(mut self) -> Self {
        self.primary_namespaced = false;
        self
    }

    /// Queues the controller's object when an object changes that it controls (`controller: true`). Short for
    /// `watches(Watch::of::<K>().by_owner())`.
    pub fn owns<K: Kind>(self) -> Self {
        self.watches(Watch::of::<K>().by_owner())
    }

    /// Queues keys when objects change, as the description says.
    pub fn watches(mut self, watch: Watch) -> Self {
        let informer = self.manager.hold(watch.target(&self.manager));
        self.sources.push(Declared::Watch(informer, watch));
        self
    }

    /// Queues the keys that arrive on a channel. The channel's own bound is the bound: a full one makes its sender wait.
    pub fn channel(mut self, name: &str, receiver: mpsc::Receiver<Key>) -> Self {
        let origin = Origin::Channel { receiver: Mutex::new(Some(receiver)) };
        let source = Source { origin, name: SourceName::named(name), predicates: Vec::new() };
        self.sources.push(Declared::Channel(source));
        self
    }

    /// Keeps a kind in the cache for reads. Its events queue nothing.
    pub fn reads<K: Kind>(self) -> Self {
        let target = self.manager.target::<K>();
        self.reads_target(target)
    }

    /// As [`Controller::reads`], for a part of a kind or one known at run time.
    pub fn reads_target(mut self, target: Target) -> Self {
        self.reads.push(self.manager.hold(target));
        self
    }

    /// Filters the events of the controller's own kind. [`Watch::with_predicate`] filters those of another watch.
    pub fn with_predicate(mut self, predicate: Predicate) -> Self {
        self.own_predicates.push(predicate);
        self
    }

    /// Filters the events of the controller's own kind and of all watches. Channels have no events to filter.
    pub fn with_predicate_for_all(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    /// Another name than the kind's.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    /// How many objects are worked on at a time ([`DEFAULT_CONCURRENCY`]).
    ///
    /// # Panics
    /// If it is zero.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        assert!(concurrency > 0, "a controller needs a worker");
        self.concurrency = concurrency;
        self
    }

    /// How long failing keys wait. The default is per key only; see [`RateLimiter`] for why.
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.limiter = limiter;
        self
    }

    /// Makes the queue strictly first in, first out. By default namespaces take turns, so that one with many changes
    /// does not delay the others.
    pub fn first_in_first_out(mut self) -> Self {
        self.fair = false;
        self
    }

    /// Ends a reconcile that takes longer, as an error.
    pub fn reconcile_timeout(mut self, timeout: Duration) -> Self {
        self.reconcile_timeout = Some(timeout);
        self
    }

    /// How long its caches may take to sync before the manager gives up; what
    /// [`ManagerOptions`](crate::ManagerOptions) say otherwise. Of two controllers that share a cache the hastier decides.
    pub fn cache_sync_timeout(mut self, timeout: Duration) -> Self {
        self.cache_sync_timeout = timeout;
        self
    }

    /// How often every object is queued again from the cache; `None` for never. The default is 10 h ± 10 %.
    pub fn resync(mut self, period: Option<Duration>) -> Self {
        self.resync = period;
        self
    }

    /// The name under which the controller owns fields; its own name otherwise. Choose one that no other program uses on
    /// the same objects, and keep it: two that apply under one name take each other's fields away.
    pub fn field_owner(mut self, field_owner: &str) -> Self {
        self.field_owner = Some(field_owner.to_owned());
        self
    }

    /// The name under which the controller records events and the API that it writes; its own name and the manager's
    /// API otherwise.
    pub fn events(mut self, name: &str, api: EventApi) -> Self {
        self.events = Some((name.to_owned(), api));
        self
    }

    /// Runs the controller in every replica. By default only the leader runs it.
    pub fn without_leader_election(mut self) -> Self {
        self.leader_elected = false;
        self
    }

    /// Lets reads and reconciles act on a cache that does not show this process's own writes yet. By default they wait
    /// for them.
    pub fn without_read_your_writes(mut self) -> Self {
        self.read_your_writes = false;
        self
    }

    /// Registers the controller with its manager. The manager runs it: after its own start, or at once if it runs.
    ///
    /// # Errors
    /// A [`SetupError`] if the declaration does not make sense.
    pub fn register(mut self, reconciler: impl Reconciler) -> Result<ControllerHandle, SetupError> {
        self.validate()?;
        let (numbers, informers): (Vec<usize>, Vec<SharedInformer>) =
            self.held().map(|informer| (informer.number(), (**informer).clone())).unzip();
        let own_kind = self.own_kind();
        // The first source is the controller's own kind; its informer may be of more than was asked for.
        let own = own_kind.as_ref().and(numbers.first().copied());
        let sources = self.resolve_sources(own_kind.as_ref())?;
        let taken = self.manager.take_name(&self.name)?;
        let options = self.queue_options();
        let queue = WorkQueue::new(&self.name, options);
        let metrics = self.manager.metrics();
        metrics.watch_queue(&queue);
        let field_owner = self.field_owner.as_deref().unwrap_or(&self.name);
        let leader = self.manager.leader_clock().filter(|_| self.leader_elected);
        let identity = Identity {
            field_owner: field_owner.to_owned(),
            leader: leader.clone(),
            applies_skipped: metrics.applies_skipped(&self.name),
            consistent: self.read_your_writes,
            informers: numbers,
            reads: Reads::Cache,
        };
        let client = self.manager.client_for(identity);
        let arrivals = Arc::new(Arrivals::default());
        let stop = CancellationToken::new();
        let work = Work {
            name: self.name.as_str().into(),
            queue: queue.clone(),
            sources,
            predicates: self.predicates,
            informers,
            reads: self.reads,
            arrivals: Arc::clone(&arrivals),
            stop: stop.clone(),
            taken,
            reconciler: Arc::new(reconciler),
            client,
            recorder: match &self.events {
                Some((name, api)) => self.manager.recorder_for(name, leader.clone()).with_api(*api),
                None => self.manager.recorder_for(&self.name, leader.clone()),
            },
            clock: self.manager.clock().clone(),
            random: self.manager.random().clone(),
            reporter: Reporter::new(
                &self.name,
                self.manager.log_target(),
                metrics.controller(&self.name),
                own_kind.as_ref().map_or(SourceName::NONE, |own| SourceName::named(&own.kind)),
            ),
            published: metrics.clone(),
            leader,
            lease: self.manager.leader_clock(),
            concurrency: self.concurrency,
            reconcile_timeout: self.reconcile_timeout,
            cache_sync_timeout: self.cache_sync_timeout,
            grace_period: self.manager.grace_period(),
            resync: self.resync,
            read_your_writes: self.read_your_writes,
            primary: own,
            own_kind: own_kind.clone().map(Arc::new),
            unseen: Mutex::new(HashMap::new()),
        };
        let group = if self.leader_elected { Group::Leader } else { Group::Always };
        let (informers, timeout) = (work.informers.clone(), work.cache_sync_timeout);
        let caches = SyncDeadline { informers, timeout, stop: stop.clone() };
        self.manager
            .register(&self.name, group, Some(caches), move |stopping| Box::pin(work.run(stopping)))?;
        Ok(ControllerHandle { queue, manager: self.manager, own_kind, arrivals, stop })
    }

    fn validate(&self) -> Result<(), SetupError> {
        if self.primary.is_none() && !self.own_predicates.is_empty() {
            return Err(SetupError::NoKind(self.name.clone()));
        }
        if self.sources.is_empty() {
            return Err(SetupError::NoSource(self.name.clone()));
        }
        let selector = |error| SetupError::Selector { controller: self.name.clone(), error };
        self.held().try_for_each(|informer| informer.target().validate()).map_err(selector)
    }

    fn resolve_sources(&mut self, own_kind: Option<&OwnKind>) -> Result<Vec<Source>, SetupError> {
        let declared = std::mem::take(&mut self.sources).into_iter();
        let sources: Option<Vec<Source>> = declared.map(|source| source.resolve(own_kind)).collect();
        let mut sources = sources.ok_or_else(|| SetupError::NoKind(self.name.clone()))?;
        if let Some(own) = sources.first_mut() {
            own.predicates.append(&mut self.own_predicates);
        }
        Ok(sources)
    }

    fn own_kind(&self) -> Option<OwnKind> {
        let resource = &self.primary.as_ref()?.resource;
        let (group, kind) = (resource.group.clone(), resource.kind.clone());
        Some(OwnKind { group, kind, namespaced: self.primary_namespaced })
    }

    fn held(&self) -> impl Iterator<Item = &HeldInformer> {
        self.sources.iter().filter_map(Declared::informer).chain(&self.reads)
    }

    fn queue_options(&mut self) -> QueueOptions<Key> {
        QueueOptions {
            limiter: std::mem::take(&mut self.limiter),
            fairness: self.fair.then_some(namespace_flow as fn(&Key) -> u64),
            seed: self.manager.random().next_u64(),
            ..QueueOptions::default()
        }
    }
}

impl Declared {
    /// The informer that it listens to, unless it is a channel.
    fn informer(&self) -> Option<&HeldInformer> {
        match self {
            Declared::Watch(informer, _) => Some(informer),
            Declared::Channel(_) => None,
        }
    }

    /// The source, or `None` if it queues owners and the controller has no kind of its own.
    fn resolve(self, own: Option<&OwnKind>) -> Option<Source> {
        match self {
            Declared::Watch(informer, watch) => Source::of_watch(informer, watch, own),
            Declared::Channel(source) => Some(source),
        }
    }
}

/// Keys of one namespace share a flow.
fn namespace_flow(key: &Key) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(key.namespace().unwrap_or_default())
}
