//! Starting and stopping in order.
//!
//! Start: servers, webhooks, caches, work that needs no lease, then (once elected) work that does. Stop, in reverse: work
//! that needs the lease, other work, what was recorded is sent and the lease given up, then webhooks, caches and servers.
//! A lost lease stops everything at once.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{Addresses, Group, Manager, Notice, Runnable, SyncDeadline};
use crate::clock;
use crate::error::Error;
use crate::health::{Endpoints, serve};
use crate::informer::{SharedInformer, missing, wait_for_cache_sync};
use crate::latch::Latch;
use crate::leader_election::{Elector, LeaderElectionError};
use crate::recorder::{EventType, Sink};
use crate::shutdown::Signals;

/// How long the last events may take.
const EVENTS_GRACE: Duration = Duration::from_secs(2);

/// Why a manager stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// It ran already.
    #[error("the manager was run before")]
    RanBefore,
    /// A server could not listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The options of the election do not work.
    #[error(transparent)]
    Election(#[from] LeaderElectionError),
    /// The caches did not sync.
    #[error("caches of {kinds} did not sync within {after:?}")]
    CacheSync {
        /// The kinds that are missing, each with what its last request failed with.
        kinds: String,
        /// The time that passed.
        after: Duration,
    },
    /// Something that ran failed.
    #[error("{name}: {message}")]
    Failed {
        /// The name of the work that failed.
        name: String,
        /// Why.
        message: String,
    },
    /// Somebody else may act now, so everything was stopped at once; the process should exit.
    #[error("leader election lost")]
    LeaseLost,
    /// A second signal came before the end.
    #[error("stopped at once by a second signal")]
    Interrupted,
    /// Signals cannot be handled.
    #[error("signals cannot be handled: {0}")]
    Signals(#[from] std::io::Error),
    /// Work did not end within the grace period and was aborted.
    #[error("{0} did not stop within the grace period")]
    Grace(String),
}

/// A group of running work.
pub(super) struct Running {
    tasks: JoinSet<Result<(), Error>>,
    names: Vec<(Id, String)>,
    stopping: CancellationToken,
}

impl Running {
    fn new() -> Self {
        Running { tasks: JoinSet::new(), names: Vec::new(), stopping: CancellationToken::new() }
    }

    pub(super) fn start(&mut self, runnable: Runnable) {
        tracing::debug!(name = runnable.name, "starting");
        let (start, stopping) = (runnable.start, self.stopping.clone());
        // Begun within the task: what panics before there is a future is named too, and stops the others in order.
        let handle = self.tasks.spawn(async move { start(stopping).await });
        self.names.push((handle.id(), runnable.name));
    }

    fn name_of(&mut self, id: Id) -> String {
        let place = self.names.iter().position(|(known, _)| *known == id);
        place.map_or_else(|| "work".to_owned(), |place| self.names.swap_remove(place).1)
    }

    /// The next failure. Work that ends well is forgotten; waits for ever if nothing fails.
    async fn failure(&mut self) -> ManagerError {
        loop {
            match self.tasks.join_next_with_id().await {
                None => std::future::pending().await,
                Some(ended) => {
                    if let Some(error) = self.failure_of(ended) {
                        return error;
                    }
                }
            }
        }
    }

    fn failure_of(&mut self, ended: Result<(Id, Result<(), Error>), JoinError>) -> Option<ManagerError> {
        match ended {
            Ok((id, Ok(()))) => {
                self.name_of(id);
                None
            }
            Ok((id, Err(error))) => {
                Some(ManagerError::Failed { name: self.name_of(id), message: error.to_string() })
            }
            Err(error) if error.is_cancelled() => None,
            Err(error) => {
                Some(ManagerError::Failed { name: self.name_of(error.id()), message: error.to_string() })
            }
        }
    }

    /// Tells all to end and waits for it; the names of those that did not end in time.
    pub(super) async fn finish(&mut self, end: tokio::time::Instant) -> (Option<ManagerError>, Vec<String>) {
        self.stopping.cancel();
        let mut failure = None;
        while let Ok(Some(ended)) = tokio::time::timeout_at(end, self.tasks.join_next_with_id()).await {
            let error = self.failure_of(ended);
            failure = failure.or(error);
        }
        let left = if self.tasks.is_empty() {
            Vec::new()
        } else {
            self.names.drain(..).map(|(_, name)| name).collect()
        };
        self.tasks.abort_all();
        (failure, left)
    }
}

impl SyncDeadline {
    async fn wait(&self) -> Result<(), ManagerError> {
        let SyncDeadline { informers, timeout, stop } = self;
        let synced = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = tokio::time::timeout(*timeout, wait_for_cache_sync(informers)) => synced,
        };
        synced.map(drop).map_err(|_| ManagerError::CacheSync { kinds: missing(informers), after: *timeout })
    }
}

/// Ends the informers when the manager's run ends in any way, also when its future is dropped.
struct Caches<'a>(&'a Manager);

impl Drop for Caches<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.stopped = true;
        state.running = None;
        drop(state);
        self.0.0.core.caches.end();
        if let Some(leader) = &self.0.0.leader {
            leader.stop();
        }
    }
}

impl Manager {
    /// Runs everything until `shutdown` completes, then stops in order. Dropping the future stops at once.
    ///
    /// # Errors
    /// When something fails that the manager cannot go on without; see [`ManagerError`].
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let (sender, mut notices) = mpsc::unbounded_channel();
        let (mut runnables, recorded) = {
            let mut state = self.state();
            let recorded = state.recorded.take().ok_or(ManagerError::RanBefore)?;
            state.running = Some(sender);
            (std::mem::take(&mut state.runnables), recorded)
        };
        let _caches = Caches(self);
        let mut elector = self.elector()?;
        let mut servers = JoinSet::new();
        self.start_servers(&mut servers).await?;
        let (sink, unsent) = (self.sink(), self.0.unsent.clone());
        servers.spawn(async move {
            sink.run(recorded, unsent).await;
            Ok(())
        });
        let mut serving = Running::new();
        let before = runnables.extract_if(.., |runnable| runnable.group == Group::Server);
        let ready: Vec<_> = before.map(|runnable| serving.start_early(runnable)).collect();
        let caches = runnables.iter_mut().filter_map(|runnable| runnable.caches.take()).collect();
        tokio::pin!(shutdown);
        {
            let mut synced = Box::pin(async {
                for ready in ready {
                    ready.wait().await;
                }
                self.start_caches(caches).await
            });
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return serving.drain(self.0.options.grace_period).await,
                    error = serving.failure() => return Err(error),
                    synced = synced.as_mut() => break synced?,
                    Some(notice) = notices.recv() => match notice {
                        Notice::Run(runnable) => runnables.push(runnable),
                        Notice::Stopped => runnables.retain(|runnable| !runnable.stop.is_cancelled()),
                    },
                }
            }
        }
        self.work(shutdown, elector.as_mut(), serving, runnables, notices).await
    }

    /// As [`Manager::run`], until SIGTERM or SIGINT. A second signal stops everything at once.
    ///
    /// Dropping the future stops everything at once, without order and without releasing the lease.
    ///
    /// # Errors
    /// As [`Manager::run`]; [`ManagerError::Interrupted`] after a second signal.
    pub async fn run_until_signal(&self) -> Result<(), ManagerError> {
        let mut signals = Signals::new()?;
        let stop = CancellationToken::new();
        let running = self.run(stop.clone().cancelled_owned());
        tokio::pin!(running);
        tokio::select! {
            biased;
            ended = &mut running => return ended,
            () = signals.next() => stop.cancel(),
        }
        tokio::select! {
            biased;
            ended = &mut running => ended,
            () = signals.next() => Err(ManagerError::Interrupted),
        }
    }

    fn elector(&self) -> Result<Option<Elector>, ManagerError> {
        let (Some(options), Some(leader)) = (&self.0.options.leader_election, &self.0.leader) else {
            return Ok(None);
        };
        options.validate()?;
        let mut options = options.clone();
        if options.identity.is_empty() {
            options.identity = format!("{}_{}", self.0.options.name, self.0.options.random.uid());
        }
        if options.field_manager.is_empty() {
            options.field_manager.clone_from(&self.0.options.name);
        }
        let metrics = self.0.metrics.leader(&options.name);
        Ok(Some(Elector::new(
            self.0.core.transport.clone(),
            options,
            leader.clone(),
            self.0.options.clock.clone(),
            self.0.options.random.clone(),
            metrics,
            self.0.leader_name.clone(),
        )))
    }

    fn sink(&self) -> Sink {
        let options = &self.0.options;
        Sink::new(
            self.0.core.transport.clone(),
            options.events.clone(),
            &options.name,
            options.random.clone(),
            self.0.metrics.clone(),
        )
    }

    async fn start_servers(&self, servers: &mut JoinSet<std::io::Result<()>>) -> Result<(), ManagerError> {
        let options = &self.0.options;
        let mut addresses = Addresses::default();
        if let Some(address) = options.health_address {
            let endpoints = Endpoints {
                healthz: Some(self.0.healthz.clone()),
                readyz: Some(self.0.readyz.clone()),
                metrics: None,
            };
            addresses.health = Some(listen(servers, address, endpoints).await?);
        }
        if let Some(address) = options.metrics_address {
            let endpoints = Endpoints { metrics: Some(self.0.metrics.clone()), ..Endpoints::default() };
            addresses.metrics = Some(listen(servers, address, endpoints).await?);
        }
        self.0.addresses.send_replace(addresses);
        Ok(())
    }

    /// Starts all informers and waits for them: for those of a controller as long as it says.
    async fn start_caches(&self, controllers: Vec<SyncDeadline>) -> Result<(), ManagerError> {
        let mut others: Vec<_> =
            self.0.core.caches.all().into_iter().map(|declared| declared.informer).collect();
        for informer in &others {
            informer.start();
        }
        others.retain(|informer| {
            let known =
                |sync: &SyncDeadline| sync.informers.iter().any(|it| it.target() == informer.target());
            !controllers.iter().any(known)
        });
        let timeout = self.0.options.cache_sync_timeout;
        let others = SyncDeadline { informers: others, timeout, stop: CancellationToken::new() };
        let all = controllers.iter().chain([&others]).map(SyncDeadline::wait);
        futures::future::try_join_all(all).await.map(|_| ())
    }

    async fn work(
        &self,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
        mut elector: Option<&mut Elector>,
        mut serving: Running,
        runnables: Vec<Runnable>,
        mut notices: mpsc::UnboundedReceiver<Notice>,
    ) -> Result<(), ManagerError> {
        let (mut always, mut leading) = (Running::new(), Running::new());
        let mut waiting = Vec::new();
        for runnable in runnables.into_iter().filter(|runnable| !runnable.stop.is_cancelled()) {
            match runnable.group {
                Group::Always | Group::Server => always.start(runnable),
                Group::Leader => waiting.push(runnable),
            }
        }
        let competes = elector.is_some();
        let won = Latch::default();
        // One future from the first try to the last renewal: what else happens here must not begin a wait anew.
        let mut election = Box::pin(election(elector.as_deref_mut(), &won));
        let mut elected = !competes;
        let mut caught_up = Box::pin(async {
            won.wait().await;
            self.announce("became leader");
            self.catch_up().await;
        });
        let ended = loop {
            if elected {
                for runnable in waiting.drain(..) {
                    leading.start(runnable);
                }
            }
            tokio::select! {
                biased;
                () = shutdown.as_mut() => break Ok(()),
                () = election.as_mut() => break Err(ManagerError::LeaseLost),
                () = caught_up.as_mut(), if !elected => elected = true,
                error = serving.failure() => break Err(error),
                error = always.failure() => break Err(error),
                error = leading.failure() => break Err(error),
                Some(notice) = notices.recv() => match notice {
                    Notice::Run(runnable) if runnable.group == Group::Always => always.start(runnable),
                    Notice::Run(runnable) => waiting.push(runnable),
                    Notice::Stopped => waiting.retain(|runnable| !runnable.stop.is_cancelled()),
                },
            }
        };
        // From here on nobody would run what is registered.
        self.state().stopped = true;
        if matches!(ended, Err(ManagerError::LeaseLost)) {
            // No grace: somebody else may act already. Dropping the groups aborts them.
            return ended;
        }
        // A process that is not elected by now need not be any more.
        let elected = won.is_set();
        let renewing = Some(election.as_mut()).filter(|_| elected);
        let stopped = self.stop(&mut always, &mut leading, renewing).await;
        drop(election);
        if matches!(stopped, Err(ManagerError::LeaseLost)) {
            return stopped;
        }
        if competes && elected {
            self.announce("stopped leading");
        }
        // The last events are sent too, if the server answers while the lease still allows it.
        let _ = tokio::time::timeout(EVENTS_GRACE, self.0.unsent.none()).await;
        if let Some(elector) = elector {
            elector.release().await;
        }
        let drained = serving.drain(self.0.options.grace_period).await;
        ended.and(stopped).and(drained)
    }

    /// Lists the newest state of each kind, if the options say so: the process that led before may have written what
    /// the caches do not show yet.
    async fn catch_up(&self) {
        if !self.0.options.consistent_start {
            return;
        }
        let informers = self.0.core.caches.all().into_iter().map(|declared| declared.informer);
        // A kind that has never synced, such as one without its definition, must not keep the others from their work.
        let synced = informers.filter(SharedInformer::has_synced);
        let asked: Vec<_> = synced.map(|informer| (informer.relist(), informer)).collect();
        for (number, informer) in asked {
            informer.wait_relisted(number).await;
        }
    }

    /// An event about the Lease, as client-go records it.
    fn announce(&self, what: &str) {
        let Some(election) = &self.0.options.leader_election else { return };
        let lease = ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            name: Some(election.name.clone()),
            namespace: Some(election.namespace.clone()),
            ..ObjectReference::default()
        };
        let holder = self.0.leader_name.borrow().clone().unwrap_or_default();
        let message = format!("{holder} {what}");
        let recorder = self.recorder(&self.0.options.name);
        recorder.publish(EventType::Normal, lease, None, "LeaderElection", "LeaderElection", message);
    }

    /// Lets running work end, renewing the lease meanwhile.
    async fn stop(
        &self,
        always: &mut Running,
        leading: &mut Running,
        renewing: Option<Pin<&mut impl Future<Output = ()>>>,
    ) -> Result<(), ManagerError> {
        let (now, grace) = (tokio::time::Instant::now(), self.0.options.grace_period);
        let (half, end) = (clock::after(now, grace / 2), clock::after(now, grace));
        let finish = async {
            // A task that hangs must not use up the time of the others: they are stopped while some is left.
            let others = always.stopping.clone();
            let early = async {
                tokio::time::sleep_until(half).await;
                others.cancel();
                std::future::pending::<Infallible>().await
            };
            let (first, mut late) = tokio::select! {
                biased;
                finished = leading.finish(end) => finished,
                never = early => match never {},
            };
            let (second, later) = always.finish(end).await;
            late.extend(later);
            match (first.or(second), late.is_empty()) {
                (Some(error), _) => Err(error),
                (None, true) => Ok(()),
                (None, false) => Err(ManagerError::Grace(late.join(", "))),
            }
        };
        tokio::select! {
            biased;
            finished = finish => finished,
            () = until_lost(renewing) => Err(ManagerError::LeaseLost),
        }
    }
}

/// Acquires the lease, says so, and keeps it; returns when it is lost. Never, if there is no election.
async fn election(elector: Option<&mut Elector>, won: &Latch) {
    let Some(elector) = elector else { return std::future::pending().await };
    elector.acquire().await;
    won.set();
    elector.hold().await;
}

async fn until_lost(renewing: Option<Pin<&mut impl Future<Output = ()>>>) {
    match renewing {
        Some(renewing) => renewing.await,
        None => std::future::pending().await,
    }
}

async fn listen(
    servers: &mut JoinSet<std::io::Result<()>>,
    address: std::net::SocketAddr,
    endpoints: Endpoints,
) -> Result<std::net::SocketAddr, ManagerError> {
    let error = |source| ManagerError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let bound = listener.local_addr().map_err(error)?;
    servers.spawn(serve(listener, endpoints));
    Ok(bound)
}
