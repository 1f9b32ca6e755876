//! Declaring a controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arrivals::Arrivals;
use super::handle::ControllerHandle;
use super::reconcile::{Reconciler, Request};
use super::source::{Map, Origin, Source, map_changes, map_objects, map_owner, map_self};
use super::worker::Work;
use crate::client::{HeldInformer, Identity, Kind};
use crate::informer::Object;
use crate::informer::SharedInformer;
use crate::informer::Target;
use crate::manager::{Group, Manager, SetupError, SyncDeadline};
use crate::predicate::{Change, Predicate};
use crate::queue::Source as Reporter;
use crate::queue::{QueueOptions, RateLimiter, WorkQueue};
use crate::recorder::EventApi;

/// How many objects a controller works on at a time, unless it says otherwise. One object is never worked on
/// twice at a time, whatever the number.
pub const DEFAULT_CONCURRENCY: usize = 4;

/// Declares a controller, step by step; [`Controller::run`] registers it.
///
/// ```no_run
/// use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
/// use k8s_openapi::api::core::v1::Pod;
/// use setpoint::{Action, Context, Controller, Manager, Request, predicate};
///
/// fn register(manager: &Manager) -> Result<(), setpoint::SetupError> {
///     Controller::for_kind::<Deployment>(manager)
///         .with_predicate(predicate::generation_changed())
///         .owns::<ReplicaSet>()
///         .watches::<Pod>(|pod| {
///             let app = pod.labels().get("app");
///             app.map(|app| Request::namespaced(pod.namespace().unwrap_or_default(), app)).into_iter().collect()
///         })
///         .concurrency(5)
///         .run(|_ctx: Context, request: Request| async move {
///             tracing::info!(%request, "reconciling");
///             Ok(Action::done())
///         })?;
///     Ok(())
/// }
/// ```
#[must_use = "nothing happens before `run`"]
pub struct Controller {
    manager: Manager,
    name: String,
    primary: Option<Target>,
    primary_namespaced: bool,
    sources: Vec<Source>,
    reads: Vec<HeldInformer>,
    predicates: Vec<Predicate>,
    owns_without_kind: bool,
    /// What was declared last has events that a predicate can filter.
    filterable: bool,
    misplaced_predicate: bool,
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

impl Controller {
    /// A controller for the objects of one kind. Its name is the kind in lower case.
    pub fn for_kind<K: Kind>(manager: &Manager) -> Self {
        let controller = Controller::for_target(manager, manager.target::<K>());
        if K::namespaced() { controller } else { controller.cluster_scoped() }
    }

    /// A controller for a part of the objects of one kind, or a kind that is known only at run time.
    pub fn for_target(manager: &Manager, target: Target) -> Self {
        let mut controller = Controller::new(manager, &target.resource.kind.to_lowercase());
        let name = Reporter::named(&target.resource.kind);
        let informer = manager.hold(target.clone());
        controller.push(name, informer, map_self());
        controller.primary = Some(target);
        controller
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
            predicates: Vec::new(),
            owns_without_kind: false,
            filterable: false,
            misplaced_predicate: false,
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

    fn push(&mut self, name: Reporter, informer: HeldInformer, map: Map) {
        self.sources.push(Source {
            origin: Origin::Informer { informer, map },
            name,
            predicates: Vec::new(),
        });
        self.filterable = true;
    }

    /// Queues the controller's object when an object changes that it controls (`controller: true`).
    pub fn owns<K: Kind>(self) -> Self {
        let target = self.manager.target::<K>();
        self.owns_target(target, false)
    }

    /// Queues the controller's object when an object changes that it owns, as controller or not.
    pub fn owns_any<K: Kind>(self) -> Self {
        let target = self.manager.target::<K>();
        self.owns_target(target, true)
    }

    /// As [`Controller::owns`] or [`Controller::owns_any`], for a part of a kind or one known at run time.
    pub fn owns_target(mut self, target: Target, any_owner: bool) -> Self {
        let Some(primary) = &self.primary else {
            self.owns_without_kind = true;
            return self;
        };
        let (group, kind) = (primary.resource.group.clone(), primary.resource.kind.clone());
        let map = map_owner(group, kind, self.primary_namespaced, any_owner);
        let name = Reporter::named(&target.resource.kind);
        let informer = self.manager.hold(target);
        self.push(name, informer, map);
        self
    }

    /// Declares that a kind given by [`Controller::for_target`] lives in no namespace: owned objects then queue it
    /// by name alone. Call it before the `owns` methods.
    pub fn cluster_scoped(mut self) -> Self {
        self.primary_namespaced = false;
        self
    }

    /// Queues what `map` makes of an object when it changes; of an update, the old and the new one are mapped.
    pub fn watches<K: Kind>(self, map: impl Fn(&Object) -> Vec<Request> + Send + Sync + 'static) -> Self {
        let target = self.manager.target::<K>();
        self.watches_target(target, map)
    }

    /// As [`Controller::watches`], for a part of a kind or one known at run time.
    pub fn watches_target(
        mut self,
        target: Target,
        map: impl Fn(&Object) -> Vec<Request> + Send + Sync + 'static,
    ) -> Self {
        let name = Reporter::named(&target.resource.kind);
        let informer = self.manager.hold(target);
        self.push(name, informer, map_objects(map));
        self
    }

    /// As [`Controller::watches_target`], with old and new together.
    pub fn watches_changes(
        mut self,
        target: Target,
        map: impl Fn(&Change<'_>) -> Vec<Request> + Send + Sync + 'static,
    ) -> Self {
        let name = Reporter::named(&target.resource.kind);
        let informer = self.manager.hold(target);
        self.push(name, informer, map_changes(map));
        self
    }

    /// Queues what arrives on a channel. The channel's own bound is the bound: a full one makes its sender wait.
    pub fn channel(mut self, name: &str, receiver: mpsc::Receiver<Request>) -> Self {
        let origin = Origin::Channel { receiver: Mutex::new(Some(receiver)) };
        self.sources.push(Source { origin, name: Reporter::named(name), predicates: Vec::new() });
        self.filterable = false;
        self
    }

    /// Keeps a kind in the cache for reads; its events queue nothing.
    pub fn reads<K: Kind>(self) -> Self {
        let target = self.manager.target::<K>();
        self.reads_target(target)
    }

    /// As [`Controller::reads`], for a part of a kind or one known at run time.
    pub fn reads_target(mut self, target: Target) -> Self {
        self.reads.push(self.manager.hold(target));
        self.filterable = false;
        self
    }

    /// Filters the events of the source that was declared last: the kind itself, or one that is owned or watched.
    pub fn with_predicate(mut self, predicate: Predicate) -> Self {
        match self.sources.last_mut().filter(|_| self.filterable) {
            Some(source) => source.predicates.push(predicate),
            None => self.misplaced_predicate = true,
        }
        self
    }

    /// Filters the events of all sources except channels.
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

    /// Whether namespaces take turns (default) or the queue is strictly first in, first out.
    pub fn fair(mut self, fair: bool) -> Self {
        self.fair = fair;
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

    /// Whether only the leader runs it (default).
    pub fn leader_elected(mut self, leader_elected: bool) -> Self {
        self.leader_elected = leader_elected;
        self
    }

    /// Whether reads and reconciles wait until the cache shows this process's own writes (default).
    pub fn read_your_writes(mut self, read_your_writes: bool) -> Self {
        self.read_your_writes = read_your_writes;
        self
    }

    /// Registers the controller; the manager runs it.
    ///
    /// # Errors
    /// When the declaration does not make sense; see [`SetupError`].
    pub fn run(mut self, reconciler: impl Reconciler) -> Result<ControllerHandle, SetupError> {
        self.validate()?;
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
            informers: self.held().map(HeldInformer::number).collect(),
        };
        let client = self.manager.client_for(identity);
        let informers: Vec<SharedInformer> = self.held().map(|informer| (**informer).clone()).collect();
        let arrivals = Arc::new(Arrivals::default());
        let stop = CancellationToken::new();
        // The first source: its informer may be of more than was asked for.
        let own = self.primary.as_ref().and(self.held().next()).map(HeldInformer::number);
        let primary = self.primary.map(|target| (target.resource, self.primary_namespaced));
        let work = Work {
            name: self.name.as_str().into(),
            queue: queue.clone(),
            sources: self.sources,
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
            metrics: metrics.controller(&self.name),
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
            unseen: Mutex::new(HashMap::new()),
        };
        let group = if self.leader_elected { Group::Leader } else { Group::Always };
        let (informers, timeout) = (work.informers.clone(), work.cache_sync_timeout);
        let caches = SyncDeadline { informers, timeout, stop: stop.clone() };
        self.manager
            .register(&self.name, group, Some(caches), move |stopping| Box::pin(work.run(stopping)))?;
        Ok(ControllerHandle { queue, manager: self.manager, primary, arrivals, stop })
    }

    fn validate(&self) -> Result<(), SetupError> {
        if self.owns_without_kind {
            return Err(SetupError::NoKind(self.name.clone()));
        }
        if self.sources.is_empty() {
            return Err(SetupError::NoSource(self.name.clone()));
        }
        if self.misplaced_predicate {
            return Err(SetupError::MisplacedPredicate(self.name.clone()));
        }
        let selector = |error| SetupError::Selector { controller: self.name.clone(), error };
        self.held().try_for_each(|informer| informer.target().validate()).map_err(selector)
    }

    fn held(&self) -> impl Iterator<Item = &HeldInformer> {
        self.sources.iter().filter_map(Source::informer).chain(&self.reads)
    }

    fn queue_options(&mut self) -> QueueOptions<Request> {
        QueueOptions {
            limiter: std::mem::take(&mut self.limiter),
            fairness: self.fair.then_some(namespace_flow as fn(&Request) -> u64),
            seed: self.manager.random().next_u64(),
            ..QueueOptions::default()
        }
    }
}

/// Requests of one namespace share a flow.
fn namespace_flow(request: &Request) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(request.namespace().unwrap_or_default())
}
