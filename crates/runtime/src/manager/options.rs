//! The options of a manager.

use std::net::SocketAddr;
use std::time::Duration;

use setpoint_api::{Clock, Random};

use crate::client::{CONSISTENCY_TIMEOUT, REQUEST_TIMEOUT};
use crate::clock::system_clock;
use crate::informer::Namespaces;
use crate::leader_election::LeaderElection;
use crate::log_target::LogTarget;
use crate::metrics::Metrics;
use crate::recorder::{CorrelatorOptions, EventApi};

/// How a manager behaves. [`ManagerOptions::with`] changes what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// The manager's name: field owner of [`Manager::client`](crate::Manager::client) and part of events.
    pub name: String,
    /// The operator's version. The `User-Agent` of every request names both.
    pub version: String,
    /// The namespaces that informers cover, unless a controller chooses another target.
    pub namespaces: Namespaces,
    /// Takes part in an election; `None`: this process acts alone.
    pub leader_election: Option<LeaderElection>,
    /// Serves `/healthz` and `/readyz` here.
    pub health_address: Option<SocketAddr>,
    /// Serves `/metrics` here.
    pub metrics_address: Option<SocketAddr>,
    /// Serves webhooks here, if some are registered.
    #[cfg(feature = "webhooks")]
    pub webhook_address: Option<SocketAddr>,
    /// How long running work is given when the manager stops.
    pub grace_period: Duration,
    /// How often every object is queued again from the cache, ± 10 %; `None` for never.
    pub resync: Option<Duration>,
    /// How long the caches may take to sync before the manager gives up, those of a controller unless it says otherwise.
    pub cache_sync_timeout: Duration,
    /// The deadline of one call of the client.
    pub request_timeout: Duration,
    /// Caches begin with the newest state and never with one from the server's cache (`resourceVersion=0`), and they list
    /// it again when this process becomes the leader: what the process before it wrote last is seen before any
    /// reconcile. Costs a read of the server's store for each kind.
    pub consistent_start: bool,
    /// How long a read or a reconcile waits for an own write to appear in the cache. After that it is refused
    /// ([`ClientError::Stale`](crate::ClientError::Stale)) until the write appears.
    pub consistency_timeout: Duration,
    /// Which event API recorders write.
    pub event_api: EventApi,
    /// The bounds of event correlation.
    pub events: CorrelatorOptions,
    /// Metrics shared with others; own ones if `None`.
    pub metrics: Option<Metrics>,
    /// Under which target it logs: an operator and the cluster of its test may share a process.
    pub log_target: LogTarget,
    /// The wall clock.
    pub clock: Clock,
    /// The source of random numbers.
    pub random: Random,
}

impl ManagerOptions {
    /// Returns the defaults after `change`. A struct literal does not compile, because fields may be added.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

impl Default for ManagerOptions {
    /// Must be called within a tokio runtime if its time is paused.
    fn default() -> Self {
        let clock = system_clock();
        // Different in each process, unless the caller wants a run to be repeatable.
        let seed = clock.now().as_nanosecond() as u64 ^ (u64::from(std::process::id()) << 32);
        ManagerOptions {
            name: "setpoint".to_owned(),
            version: String::new(),
            namespaces: Namespaces::All,
            leader_election: None,
            health_address: None,
            metrics_address: None,
            #[cfg(feature = "webhooks")]
            webhook_address: None,
            grace_period: Duration::from_secs(30),
            resync: Some(Duration::from_secs(10 * 60 * 60)),
            cache_sync_timeout: Duration::from_secs(120),
            request_timeout: REQUEST_TIMEOUT,
            consistent_start: true,
            consistency_timeout: CONSISTENCY_TIMEOUT,
            event_api: EventApi::default(),
            events: CorrelatorOptions::default(),
            metrics: None,
            log_target: LogTarget::default(),
            random: Random::from_seed(seed),
            clock,
        }
    }
}
