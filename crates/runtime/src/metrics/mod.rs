//! Prometheus metrics: Go's names and labels, so that dashboards carry over, plus what Go does not publish.
//!
//! | name | labels | source |
//! |---|---|---|
//! | `controller_runtime_reconcile_total` | controller, result | controller-runtime |
//! | `controller_runtime_reconcile_errors_total`, `_terminal_reconcile_errors_total`, `_reconcile_panics_total`, `_reconcile_timeouts_total` | controller | controller-runtime |
//! | `controller_runtime_reconcile_time_seconds`, `_max_concurrent_reconciles`, `_active_workers` | controller | controller-runtime |
//! | `workqueue_depth` | name, controller, priority | controller-runtime |
//! | `workqueue_{adds_total,retries_total,queue_duration_seconds,work_duration_seconds,unfinished_work_seconds,longest_running_processor_seconds}` | name, controller | client-go |
//! | `rest_client_requests_total` | code, method, host | client-go |
//! | `rest_client_request_retries_total` | code, verb, host | client-go |
//! | `leader_election_master_status`, `leader_election_slowpath_total` | name | client-go |
//! | `setpoint_reconcile_conflicts_total` | controller | ours: writes that lost against somebody else's |
//! | `setpoint_stale_reads_prevented_total` | kind | ours: reads and reconciles that waited for an own write |
//! | `setpoint_reconcile_stale_total` | controller | ours: reconciles put off because a cache did not show an own write |
//! | `setpoint_read_your_writes_timeouts_total` | kind | ours: reads and reconciles refused for the same reason |
//! | `setpoint_cache_lag_seconds` | kind | ours: how old the write was for which one was refused last; 0 once it is seen |
//! | `setpoint_apply_skipped_total` | controller | ours: applies that would have changed nothing |
//! | `informer_queued_items`, `informer_store_resource_version`, `informer_processing_latency_seconds` | name, group, version, resource | client-go (component-base) |
//! | `setpoint_cache_{objects,bytes,decoded_bytes}`, `setpoint_informer_synced` | name, group, version, resource | ours: what a cache holds |
//! | `setpoint_informer_{lists,watches,short_watches,watch_errors,replaces,events,received_bytes,undecodable,ill_typed,decode_errors,stale_events,handler_panics,watch_panics,transform_panics,index_panics}_total` | as above | ours: what a watch went through |
//! | `setpoint_informer_handler_lag`, `setpoint_informer_handler_merged_total` | as above | ours: events that wait for a handler, and that were merged because too many did |
//! | `setpoint_informer_silence_seconds` | as above | ours: time since the server last sent anything (staleness) |
//! | `setpoint_events_dropped_total` | reason | ours: events of the recorder that were not sent |
//!
//! Errors of a reconcile that lost against another write, for want of the lease or because a cache is behind are counted among its results and not
//! among its errors. Go's `process_*`, `go_*` and latencies of requests are not published.

mod queues;

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use http::{Method, Response, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::informer::{InformerCollector, InformerFactory};
use crate::queue::WorkQueue;

use queues::Queues;

pub use prometheus_client;

/// The media type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of `controller_runtime_reconcile_time_seconds`, as controller-runtime has them.
const RECONCILE_SECONDS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

type Labels = Vec<(&'static str, String)>;

/// The metrics of one manager, or of several that are given the same. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Shared>);

struct Shared {
    registry: Mutex<Registry>,
    families: Families,
    queues: Arc<Queues>,
    informers: InformerCollector,
}

struct Families {
    times: Family<Labels, Histogram>,
    reconciles: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    terminal_errors: Family<Labels, Counter>,
    panics: Family<Labels, Counter>,
    timeouts: Family<Labels, Counter>,
    conflicts: Family<Labels, Counter>,
    stale: Family<Labels, Counter>,
    applies_skipped: Family<Labels, Counter>,
    max_concurrent: Family<Labels, Gauge>,
    active: Family<Labels, Gauge>,
    requests: Family<Labels, Counter>,
    request_retries: Family<Labels, Counter>,
    stale_reads_prevented: Family<Labels, Counter>,
    consistency_timeouts: Family<Labels, Counter>,
    cache_lag: Family<Labels, Gauge>,
    leader: Family<Labels, Gauge>,
    slow_path: Family<Labels, Counter>,
    events_dropped: Family<Labels, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics of a new manager, all zero.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let families = Families::new();
        families.register(&mut registry);
        let queues = Arc::new(Queues::default());
        registry.register_collector(Box::new(Arc::clone(&queues)));
        let informers = InformerCollector::default();
        registry.register_collector(Box::new(informers.clone()));
        Metrics(Arc::new(Shared { registry: Mutex::new(registry), families, queues, informers }))
    }

    /// The registry, for metrics of one's own. Locked while the guard lives: keep it short.
    pub fn registry(&self) -> MutexGuard<'_, Registry> {
        self.0.registry.lock().expect("no holder of this lock panics")
    }

    /// Registers a metric of one's own. Counters get `_total` appended to their name.
    pub fn register(&self, name: &str, help: &str, metric: impl prometheus_client::registry::Metric) {
        self.registry().register(name, help, metric);
    }

    /// Everything in OpenMetrics text.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry()).expect("writing to a string does not fail");
        text
    }

    pub(crate) fn watch_informers(&self, factory: InformerFactory) {
        self.0.informers.add(factory);
    }

    pub(crate) fn controller(&self, controller: &str) -> ControllerMetrics {
        ControllerMetrics::new(&self.0.families, controller)
    }

    pub(crate) fn client(&self) -> ClientMetrics {
        let families = &self.0.families;
        ClientMetrics {
            requests: families.requests.clone(),
            retries: families.request_retries.clone(),
            stale_reads_prevented: families.stale_reads_prevented.clone(),
            consistency_timeouts: families.consistency_timeouts.clone(),
            cache_lag: families.cache_lag.clone(),
            host: OnceLock::new(),
        }
    }

    pub(crate) fn applies_skipped(&self, controller: &str) -> Counter {
        self.0.families.applies_skipped.get_or_create_owned(&vec![("controller", controller.to_owned())])
    }

    pub(crate) fn leader(&self, name: &str) -> LeaderMetrics {
        let labels = vec![("name", name.to_owned())];
        LeaderMetrics {
            status: self.0.families.leader.get_or_create_owned(&labels),
            slow_path: self.0.families.slow_path.get_or_create_owned(&labels),
        }
    }

    pub(crate) fn event_dropped(&self, reason: &'static str) {
        self.0.families.events_dropped.get_or_create(&vec![("reason", reason.to_owned())]).inc();
    }

    /// Publishes the numbers of a queue of one's own under its name; a [`Controller`](crate::Controller)'s queue is
    /// published already. From now on the queue reads the clock for every key, to measure how long it waits and is worked
    /// on.
    pub fn watch_queue<T: Clone + Eq + Hash + Send + 'static>(&self, queue: &WorkQueue<T>) {
        queue.measure();
        self.0.queues.add(queue);
    }

    /// The queue of this name was shut down, and nobody takes from it any more.
    pub(crate) fn queue_ended(&self, name: &str) {
        self.0.queues.ended(name);
    }
}

impl Families {
    fn new() -> Self {
        Families {
            times: Family::new_with_constructor(|| Histogram::new(RECONCILE_SECONDS)),
            reconciles: Family::default(),
            errors: Family::default(),
            terminal_errors: Family::default(),
            panics: Family::default(),
            timeouts: Family::default(),
            conflicts: Family::default(),
            stale: Family::default(),
            applies_skipped: Family::default(),
            max_concurrent: Family::default(),
            active: Family::default(),
            requests: Family::default(),
            request_retries: Family::default(),
            stale_reads_prevented: Family::default(),
            consistency_timeouts: Family::default(),
            cache_lag: Family::default(),
            leader: Family::default(),
            slow_path: Family::default(),
            events_dropped: Family::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, family: &Family<Labels, Counter>| {
            registry.register(name, help, family.clone());
        };
        counter(
            "controller_runtime_reconcile",
            "Reconciliations per controller and result",
            &self.reconciles,
        );
        counter("controller_runtime_reconcile_errors", "Reconciliation errors per controller", &self.errors);
        counter(
            "controller_runtime_terminal_reconcile_errors",
            "Terminal reconciliation errors per controller",
            &self.terminal_errors,
        );
        counter("controller_runtime_reconcile_panics", "Reconciliation panics per controller", &self.panics);
        counter(
            "controller_runtime_reconcile_timeouts",
            "Reconciliation timeouts per controller",
            &self.timeouts,
        );
        counter("rest_client_requests", "HTTP requests by status code, method and host", &self.requests);
        counter("rest_client_request_retries", "HTTP requests sent again", &self.request_retries);
        counter("leader_election_slowpath", "Lease writes that took the slow path", &self.slow_path);
        counter(
            "setpoint_reconcile_conflicts",
            "Reconciliations that lost a write conflict",
            &self.conflicts,
        );
        counter(
            "setpoint_reconcile_stale",
            "Reconciliations put off because a cache did not show an own write",
            &self.stale,
        );
        counter("setpoint_apply_skipped", "Applies that would have changed nothing", &self.applies_skipped);
        counter(
            "setpoint_stale_reads_prevented",
            "Reads and reconciliations that waited until the cache had seen an own write",
            &self.stale_reads_prevented,
        );
        counter(
            "setpoint_read_your_writes_timeouts",
            "Reads and reconciliations refused because a cache did not show an own write in time",
            &self.consistency_timeouts,
        );
        counter("setpoint_events_dropped", "Events that the recorder did not send", &self.events_dropped);
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation",
            self.times.clone(),
        );
        let mut gauge = |name: &str, help: &str, family: &Family<Labels, Gauge>| {
            registry.register(name, help, family.clone());
        };
        gauge(
            "setpoint_cache_lag_seconds",
            "Age of the own write for which a read was refused last",
            &self.cache_lag,
        );
        gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Bound of concurrent reconciles",
            &self.max_concurrent,
        );
        gauge("controller_runtime_active_workers", "Workers that reconcile now", &self.active);
        gauge("leader_election_master_status", "Whether this process holds the lease", &self.leader);
    }
}

/// The counters of one controller.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    pub(crate) success: Counter,
    pub(crate) error: Counter,
    pub(crate) requeue: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal_errors: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) stale: Counter,
    pub(crate) max_concurrent: Gauge,
    pub(crate) active: Gauge,
    pub(crate) time: Histogram,
}

impl ControllerMetrics {
    fn new(families: &Families, controller: &str) -> Self {
        let labels = vec![("controller", controller.to_owned())];
        let result = |result: &str| {
            let labels = vec![("controller", controller.to_owned()), ("result", result.to_owned())];
            families.reconciles.get_or_create_owned(&labels)
        };
        ControllerMetrics {
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            errors: families.errors.get_or_create_owned(&labels),
            terminal_errors: families.terminal_errors.get_or_create_owned(&labels),
            panics: families.panics.get_or_create_owned(&labels),
            timeouts: families.timeouts.get_or_create_owned(&labels),
            conflicts: families.conflicts.get_or_create_owned(&labels),
            stale: families.stale.get_or_create_owned(&labels),
            max_concurrent: families.max_concurrent.get_or_create_owned(&labels),
            active: families.active.get_or_create_owned(&labels),
            time: families.times.get_or_create_owned(&labels),
        }
    }
}

/// The counters of the client.
#[derive(Debug)]
pub(crate) struct ClientMetrics {
    requests: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    stale_reads_prevented: Family<Labels, Counter>,
    consistency_timeouts: Family<Labels, Counter>,
    cache_lag: Family<Labels, Gauge>,
    /// Known from the first answer of a client that was made by [`crate::client::connect_with`]; empty for others.
    host: OnceLock<Host>,
}

/// The server that an answer came from, as metrics name it: `host:port`, or `host` where the URL has no port. Clients
/// made here put it into the extensions of each answer, because kube's client does not tell its URL.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) Arc<str>);

impl ClientMetrics {
    /// `None` for a request without an answer.
    pub(crate) fn answered<B>(&self, method: &Method, answer: Option<&Response<B>>) {
        if let Some(host) = answer.and_then(|answer| answer.extensions().get::<Host>()) {
            self.host.get_or_init(|| host.clone());
        }
        let code = answer.map_or_else(|| "<error>".to_owned(), |answer| answer.status().as_u16().to_string());
        let labels = vec![("code", code), ("host", self.host()), ("method", method.to_string())];
        self.requests.get_or_create(&labels).inc();
    }

    fn host(&self) -> String {
        self.host.get().map(|host| host.0.to_string()).unwrap_or_default()
    }

    /// After an answer with this code.
    pub(crate) fn retried(&self, code: StatusCode, method: &Method) {
        let code = code.as_u16().to_string();
        let labels = vec![("code", code), ("host", self.host()), ("verb", method.to_string())];
        self.retries.get_or_create(&labels).inc();
    }

    pub(crate) fn stale_read_prevented(&self, kind: &str) {
        self.stale_reads_prevented.get_or_create(&vec![("kind", kind.to_owned())]).inc();
    }

    /// A read or a reconcile was refused, this long after the write that the cache does not show.
    pub(crate) fn stale(&self, kind: &str, lag: Duration) {
        let labels = vec![("kind", kind.to_owned())];
        self.consistency_timeouts.get_or_create(&labels).inc();
        self.cache_lag.get_or_create(&labels).set(i64::try_from(lag.as_secs()).unwrap_or(i64::MAX));
    }

    /// The cache shows a write that was missing.
    pub(crate) fn caught_up(&self, kind: &str) {
        self.cache_lag.get_or_create(&vec![("kind", kind.to_owned())]).set(0);
    }
}

/// The counters of leader election.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaderMetrics {
    pub(crate) status: Gauge,
    pub(crate) slow_path: Counter,
}
