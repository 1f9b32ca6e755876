//! Metrics of webhooks, with controller-runtime's names. The label `webhook` is the path.
//!
//! `setpoint_webhook_timeouts_total` is ours: controller-runtime has no time limit of its own.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::Metrics;

/// The bounds of `controller_runtime_webhook_latency_seconds`: Prometheus' defaults.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

type Labels = Vec<(&'static str, String)>;

/// The metrics of one operator's webhooks. Clones are one set.
#[derive(Clone)]
pub(super) struct WebhookMetrics {
    latency: Family<Labels, Histogram>,
    requests: Family<Labels, Counter>,
    in_flight: Family<Labels, Gauge>,
    timeouts: Family<Labels, Counter>,
    pub(super) panics: Counter,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        WebhookMetrics {
            latency: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            requests: Family::default(),
            in_flight: Family::default(),
            timeouts: Family::default(),
            panics: Counter::default(),
        }
    }
}

impl WebhookMetrics {
    /// Makes them part of what a manager serves.
    pub(super) fn register(&self, metrics: &Metrics) {
        metrics.register(
            "controller_runtime_webhook_latency_seconds",
            "Latency of processing webhook requests",
            self.latency.clone(),
        );
        metrics.register(
            "controller_runtime_webhook_requests",
            "Webhook requests by HTTP status code",
            self.requests.clone(),
        );
        metrics.register(
            "controller_runtime_webhook_requests_in_flight",
            "Webhook requests that are being served",
            self.in_flight.clone(),
        );
        metrics.register("controller_runtime_webhook_panics", "Panics of webhooks", self.panics.clone());
        metrics.register(
            "setpoint_webhook_timeouts",
            "Webhook requests whose handler took longer than the API server waits",
            self.timeouts.clone(),
        );
    }

    /// A handler took too long.
    pub(super) fn timed_out(&self, path: &str) {
        self.timeouts.get_or_create(&labels(path)).inc();
    }

    /// A request began. It ends when the answer is dropped.
    pub(super) fn begin(&self, path: &str) -> InFlight {
        self.in_flight.get_or_create(&labels(path)).inc();
        InFlight { metrics: self.clone(), path: path.to_owned(), since: tokio::time::Instant::now() }
    }
}

fn labels(path: &str) -> Labels {
    vec![("webhook", path.to_owned())]
}

/// One request in flight.
pub(super) struct InFlight {
    metrics: WebhookMetrics,
    path: String,
    since: tokio::time::Instant,
}

impl InFlight {
    /// Counts the answer.
    pub(super) fn answered(&self, code: u16) {
        let labels = vec![("webhook", self.path.clone()), ("code", code.to_string())];
        self.metrics.requests.get_or_create(&labels).inc();
        let seconds = self.since.elapsed().as_secs_f64();
        self.metrics.latency.get_or_create(&vec![("webhook", self.path.clone())]).observe(seconds);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.get_or_create(&labels(&self.path)).dec();
    }
}
