//! The manager: one client, shared caches, and everything that runs, started and stopped in order.

#[cfg(feature = "webhooks")]
mod webhooks;
mod error;
mod options;
mod early;
mod run;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use setpoint_api::{Clock, Random};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::client::{
    Applied, Authors, Caches, Client, Core, HeldInformer, Identity, Kind, Reads, Transport, Writes,
};
use crate::clock::FOR_EVER;
use crate::error::Error;
use crate::health::Checks;
use crate::informer::FieldOwners;
use crate::informer::ReflectorOptions;
use crate::informer::SharedInformer;
use crate::informer::{ClientListerWatcher, Namespaces, Target};
use crate::informer::{Connect, FactoryOptions, InformerFactory, InformerOptions};
use crate::latch::Latch;
use crate::leader_clock::LeaderClock;
use crate::metrics::Metrics;
use crate::recorder::{self, Recorded, Recorder, Unsent};
use crate::user_agent::user_agent;

pub use crate::log_target::LogTarget;
pub use error::SetupError;
pub use options::ManagerOptions;
pub use run::ManagerError;

/// How far the resync of a controller deviates at random, so that not all come at once.
const RESYNC_JITTER: f64 = 0.1;

/// When something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Before the caches, and until all other work has ended.
    #[cfg_attr(not(feature = "webhooks"), allow(dead_code, reason = "only webhooks are served so early"))]
    Server,
    /// As soon as the caches have synced.
    Always,
    /// While this process is the leader.
    Leader,
}

type Start = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Error>> + Send>;

/// Something to run.
pub(crate) struct Runnable {
    name: String,
    group: Group,
    /// The caches that it reads, if it has a deadline of its own for them.
    caches: Option<SyncDeadline>,
    /// Ends it alone; it may come before it runs.
    stop: CancellationToken,
    /// Set when the caches may start; only work of [`Group::Server`] is waited for.
    ready: Arc<Latch>,
    start: Start,
}

/// The notices that a running manager gets.
enum Notice {
    /// There is more to run.
    Run(Runnable),
    /// Something was stopped that may not run yet.
    Stopped,
}

/// Informers, and how long they may take to sync.
pub(crate) struct SyncDeadline {
    pub(crate) informers: Vec<SharedInformer>,
    pub(crate) timeout: Duration,
    /// They are needed no more.
    pub(crate) stop: CancellationToken,
}

/// One client, shared caches, controllers and other work. Cheap to clone; clones are one manager.
///
/// ```no_run
/// use setpoint::{Action, Context, Controller, Key, Manager, ManagerOptions};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let manager = Manager::new(setpoint::connect().await?, ManagerOptions::default());
/// Controller::for_kind::<ConfigMap>(&manager).register(|ctx: Context, key: Key| async move {
///     let found = ctx.client().get::<ConfigMap>(&key).await?;
///     tracing::info!(%key, exists = found.is_some(), "reconciled");
///     Ok(Action::done())
/// })?;
/// manager.run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    options: ManagerOptions,
    core: Arc<Core>,
    factory: InformerFactory,
    metrics: Metrics,
    events: mpsc::Sender<Recorded>,
    unsent: Unsent,
    leader: Option<LeaderClock>,
    leader_name: watch::Sender<Option<String>>,
    healthz: Checks,
    readyz: Checks,
    addresses: watch::Sender<Addresses>,
    names: Names,
    state: Mutex<State>,
}

/// The names of the controllers, apart from the manager: who holds one does not hold the manager.
type Names = Arc<Mutex<BTreeSet<String>>>;

/// A controller's name; dropping it lets another take it.
pub(crate) struct TakenName {
    names: Names,
    name: String,
}

impl Drop for TakenName {
    fn drop(&mut self) {
        self.names.lock().expect("no holder of this lock panics").remove(&self.name);
    }
}

struct State {
    runnables: Vec<Runnable>,
    running: Option<mpsc::UnboundedSender<Notice>>,
    recorded: Option<mpsc::Receiver<Recorded>>,
    stopped: bool,
}

/// The addresses of a manager's servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Health and readiness.
    pub health: Option<SocketAddr>,
    /// Metrics.
    pub metrics: Option<SocketAddr>,
    /// Webhooks (feature `webhooks`).
    pub webhooks: Option<SocketAddr>,
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager").field("name", &self.0.options.name).finish_non_exhaustive()
    }
}

impl Manager {
    /// A manager over kube's client. Nothing is sent before [`Manager::run`].
    ///
    /// Make the client with [`connect`](crate::connect) or [`connect_with`](crate::client::connect_with): kube's own retries
    /// would hide from this crate what it must see.
    pub fn new(client: kube::Client, options: ManagerOptions) -> Self {
        let metrics = options.metrics.clone().unwrap_or_default();
        let client_metrics = Arc::new(metrics.client());
        let agent = user_agent(&options.name, &options.version);
        let transport = Transport::new(
            client.clone(),
            Arc::clone(&client_metrics),
            options.request_timeout,
            agent.clone(),
        );
        let caches = Caches::default();
        let writes = Writes::new(
            caches.clone(),
            Arc::clone(&client_metrics),
            options.consistency_timeout,
            options.log_target,
        );
        let field_owners = FieldOwners::default();
        let factory_options = FactoryOptions {
            field_owners: field_owners.clone(),
            random: options.random.clone(),
            reflector: ReflectorOptions {
                consistent_first_list: options.consistent_start,
                log_target: options.log_target,
                ..ReflectorOptions::default()
            },
            ..FactoryOptions::default()
        };
        let connect: Connect = Arc::new(move |target, namespace| {
            let lister_watcher = ClientListerWatcher::new(client.clone(), target, namespace);
            let metrics = Arc::clone(&client_metrics);
            let observe = move |answer: Option<&_>| metrics.answered(&http::Method::GET, answer);
            Arc::new(lister_watcher.user_agent(agent.clone()).observed(Arc::new(observe)))
        });
        let factory = InformerFactory::with_connect(connect, factory_options);
        metrics.watch_informers(factory.clone());
        let (events, recorded) = mpsc::channel(recorder::QUEUE);
        let state = State { runnables: Vec::new(), running: None, recorded: Some(recorded), stopped: false };
        let readyz = Checks::default();
        let healthz = Checks::default();
        healthz.add("ping", || async { Ok(()) });
        Manager(Arc::new(Inner {
            core: Arc::new(Core {
                transport,
                caches,
                writes,
                field_owners,
                applied: Applied::default(),
                authors: Authors::default(),
            }),
            factory,
            metrics,
            events,
            unsent: Unsent::new(),
            leader: options.leader_election.as_ref().map(|_| LeaderClock::new()),
            leader_name: watch::Sender::new(None),
            healthz,
            readyz,
            addresses: watch::Sender::new(Addresses::default()),
            names: Names::default(),
            state: Mutex::new(state),
            options,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no holder of this lock panics")
    }

    /// A client under the manager's own name. If the manager takes part in an election it sends writes only while
    /// this process is the leader; a reconcile that fails for want of the lease is tried again while that may come.
    pub fn client(&self) -> Client {
        self.client_named(&self.0.options.name, self.0.leader.clone())
    }

    /// A client that sends writes whether or not this process is the leader.
    pub fn client_without_lease(&self, field_owner: &str) -> Client {
        self.client_named(field_owner, None)
    }

    fn client_named(&self, field_owner: &str, leader: Option<LeaderClock>) -> Client {
        self.client_for(Identity {
            field_owner: field_owner.to_owned(),
            leader,
            applies_skipped: self.0.metrics.applies_skipped(field_owner),
            consistent: true,
            informers: Vec::new(),
            reads: Reads::Cache,
        })
    }

    pub(crate) fn client_for(&self, identity: Identity) -> Client {
        self.0.core.field_owners.add(&identity.field_owner);
        Client::new(Arc::clone(&self.0.core), Arc::new(identity))
    }

    /// The informer of a kind, in the manager's namespaces: declared now if nobody did. Started with the manager, or
    /// at once if that runs.
    pub fn informer<K: Kind>(&self) -> SharedInformer {
        self.informer_of(self.target::<K>())
    }

    /// The informer of a part of a kind, or of a kind known only at run time.
    pub fn informer_of(&self, target: Target) -> SharedInformer {
        self.informer_with(target, &InformerOptions::default())
    }

    /// As [`Manager::informer_of`], with options of its own, such as a transform of what is cached. Call it before the
    /// controllers of the same target are declared: an informer that others hold stays as it is.
    pub fn informer_with(&self, target: Target, options: &InformerOptions) -> SharedInformer {
        let metadata_only = target.metadata_only;
        let informer = self.0.factory.informer_with(target, options);
        let informer = self.0.core.caches.declare(informer, metadata_only).informer;
        if self.state().running.is_some() {
            informer.start();
        }
        informer
    }

    /// As [`Manager::informer_of`], kept only while somebody holds the answer: the way to begin and end watches at run
    /// time. Controllers hold what they declare in the same way.
    pub fn hold(&self, target: Target) -> HeldInformer {
        let informer = self.0.core.caches.hold(self.0.factory.informer(target));
        if self.state().running.is_some() {
            informer.start();
        }
        informer
    }

    /// Stops keeping a kind: its informer ends when nobody else holds it. Reads of it are an error from then on, unless a
    /// controller or somebody else [holds](Manager::hold) it. Whole objects and their metadata are forgotten each by
    /// itself.
    pub fn forget(&self, target: &Target) {
        self.0.core.caches.forget(target);
    }

    /// The target of a kind within the manager's namespaces.
    pub fn target<K: Kind>(&self) -> Target {
        let namespaces = match K::namespaced() {
            true => self.0.options.namespaces.clone(),
            false => Namespaces::All,
        };
        Target { namespaces, ..Target::of::<K>() }
    }

    /// The targets of all informers that it keeps now.
    pub fn targets(&self) -> Vec<Target> {
        let declared = self.0.core.caches.all();
        declared.iter().map(|declared| declared.informer.target().clone()).collect()
    }

    /// The manager's metrics, also for one's own.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// A recorder of events that speaks for `controller`. If the manager takes part in an election, events are sent
    /// only while this process is the leader.
    pub fn recorder(&self, controller: &str) -> Recorder {
        self.recorder_for(controller, self.0.leader.clone())
    }

    pub(crate) fn recorder_for(&self, controller: &str, leader: Option<LeaderClock>) -> Recorder {
        Recorder::new(
            (controller, self.0.options.event_api),
            self.0.events.clone(),
            self.0.unsent.clone(),
            self.0.metrics.clone(),
            self.0.options.clock.clone(),
            leader,
        )
    }

    /// Takes the queue of recorded events, so that they are not sent; `None` if somebody took it before.
    pub(crate) fn take_recorded(&self) -> Option<mpsc::Receiver<Recorded>> {
        self.state().recorded.take()
    }

    /// Checks behind `/healthz`: is this process worth keeping?
    pub fn health_checks(&self) -> &Checks {
        &self.0.healthz
    }

    /// Checks behind `/readyz`: may traffic come?
    pub fn ready_checks(&self) -> &Checks {
        &self.0.readyz
    }

    /// The addresses of the servers, once they listen.
    pub fn addresses(&self) -> watch::Receiver<Addresses> {
        self.0.addresses.subscribe()
    }

    /// Whether this process may act: it is the leader, or there is no election.
    pub fn is_leader(&self) -> bool {
        self.0.leader.as_ref().is_none_or(LeaderClock::holds)
    }

    /// The leader, as far as this process knows.
    pub fn leader(&self) -> watch::Receiver<Option<String>> {
        self.0.leader_name.subscribe()
    }

    /// The wall clock.
    pub fn clock(&self) -> &Clock {
        &self.0.options.clock
    }

    /// Random numbers that a seed can replay.
    pub fn random(&self) -> &Random {
        &self.0.options.random
    }

    /// Runs `work` while this process is the leader, beside the controllers. It is told to stop by the token and
    /// aborted when the grace period ends. An error stops the manager.
    ///
    /// # Errors
    /// When the manager has stopped.
    pub fn add<F, R>(&self, name: &str, work: F) -> Result<(), SetupError>
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.register(name, Group::Leader, None, |stopping| Box::pin(work(stopping)))
    }

    /// As [`Manager::add`], whether or not this process is the leader.
    ///
    /// # Errors
    /// When the manager has stopped.
    pub fn add_always<F, R>(&self, name: &str, work: F) -> Result<(), SetupError>
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.register(name, Group::Always, None, |stopping| Box::pin(work(stopping)))
    }

    pub(crate) fn register<F>(
        &self,
        name: &str,
        group: Group,
        caches: Option<SyncDeadline>,
        start: F,
    ) -> Result<(), SetupError>
    where
        F: FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Error>> + Send + 'static,
    {
        let stop = caches.as_ref().map(|caches| caches.stop.clone()).unwrap_or_default();
        let runnable = Runnable {
            name: name.to_owned(),
            group,
            caches,
            stop,
            ready: Arc::default(),
            start: Box::new(start),
        };
        self.register_runnable(runnable)
    }

    fn register_runnable(&self, runnable: Runnable) -> Result<(), SetupError> {
        let mut state = self.state();
        if state.stopped {
            return Err(SetupError::Stopped);
        }
        match &state.running {
            Some(running) => running.send(Notice::Run(runnable)).map_err(|_| SetupError::Stopped),
            None => {
                state.runnables.push(runnable);
                Ok(())
            }
        }
    }

    /// Lets go of what was stopped and does not run yet.
    pub(crate) fn drop_stopped(&self) {
        let mut state = self.state();
        if let Some(running) = &state.running {
            // A manager that does not listen any more has nothing that waits.
            let _ = running.send(Notice::Stopped);
        }
        let stopped: Vec<Runnable> =
            state.runnables.extract_if(.., |runnable| runnable.stop.is_cancelled()).collect();
        drop(state);
        // An author's code may run here: without the lock.
        drop(stopped);
    }

    pub(crate) fn take_name(&self, name: &str) -> Result<TakenName, SetupError> {
        let fresh = self.0.names.lock().expect("no holder of this lock panics").insert(name.to_owned());
        let taken = || TakenName { names: Arc::clone(&self.0.names), name: name.to_owned() };
        fresh.then(taken).ok_or_else(|| SetupError::NameTaken(name.to_owned()))
    }

    pub(crate) fn leader_clock(&self) -> Option<LeaderClock> {
        self.0.leader.clone()
    }

    pub(crate) fn log_target(&self) -> LogTarget {
        self.0.options.log_target
    }

    pub(crate) fn grace_period(&self) -> Duration {
        self.0.options.grace_period
    }

    pub(crate) fn cache_sync_timeout(&self) -> Duration {
        self.0.options.cache_sync_timeout
    }

    pub(crate) fn jittered_resync(&self) -> Option<Duration> {
        let stretch = 1.0 + RESYNC_JITTER * (2.0 * self.0.options.random.unit() - 1.0);
        self.0.options.resync.map(|period| period.min(FOR_EVER).mul_f64(stretch))
    }
}
