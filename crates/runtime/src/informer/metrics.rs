//! Numbers of one informer, for whoever publishes metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;

/// Bounds of `informer_processing_latency_seconds`, as Kubernetes has them.
const PROCESSING_SECONDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counters of one informer. Plain numbers: the manager's metrics registry reads them when it is scraped.
#[derive(Debug)]
pub struct InformerMetrics {
    /// List requests sent (each page counts).
    pub lists: Counter,
    /// Watch requests sent.
    pub watches: Counter,
    /// Watches that ended within a second without an event.
    pub short_watches: Counter,
    /// Full states received, the first included.
    pub replaces: Counter,
    /// Failures of a list or a watch, clean ends not counted.
    pub watch_errors: Counter,
    /// Events received on watches, bookmarks included.
    pub events: Counter,
    /// Bookmarks received.
    pub bookmarks: Counter,
    /// Bytes received.
    pub received_bytes: Counter,
    /// Objects that could not be cached, because they do not say which object they are.
    pub undecodable: Counter,
    /// Objects that are cached although their metadata is not what Kubernetes defines.
    pub ill_typed: Arc<AtomicU64>,
    /// Deltas that wait between reflector and cache.
    pub queued: Counter,
    /// Events that a handler panicked on.
    pub handler_panics: Counter,
    /// How long it takes to bring deltas into the cache and to the handlers' mailboxes.
    pub(crate) processing: Histogram,
    heard: Mutex<Option<Instant>>,
}

impl Default for InformerMetrics {
    fn default() -> Self {
        InformerMetrics {
            lists: Counter::default(),
            watches: Counter::default(),
            short_watches: Counter::default(),
            replaces: Counter::default(),
            watch_errors: Counter::default(),
            events: Counter::default(),
            bookmarks: Counter::default(),
            received_bytes: Counter::default(),
            undecodable: Counter::default(),
            ill_typed: Arc::default(),
            queued: Counter::default(),
            handler_panics: Counter::default(),
            processing: Histogram::new(PROCESSING_SECONDS),
            heard: Mutex::default(),
        }
    }
}

impl InformerMetrics {
    /// How long the server has told nothing, bookmarks included; `None` before its first word. A healthy server
    /// sends a bookmark about each minute.
    pub fn silence(&self) -> Option<Duration> {
        self.heard.lock().expect("no holder of this lock panics").map(|heard| heard.elapsed())
    }

    pub(crate) fn note_heard(&self, now: Instant) {
        *self.heard.lock().expect("no holder of this lock panics") = Some(now);
    }
}

/// A number that is counted up, or set.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
