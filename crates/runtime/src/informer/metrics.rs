//! Numbers of one informer, for whoever publishes metrics.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use tokio::time::Instant;

use crate::informer::failure::WatchFailure;

/// Bounds of `informer_processing_latency_seconds`, as Kubernetes has them.
const PROCESSING_SECONDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Counters of one informer. Plain numbers: the manager's metrics registry reads them when it is scraped.
#[derive(Debug, Default)]
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
    /// Lists and watches that a lister-watcher panicked in, or was not made for because that panicked.
    pub watch_panics: Counter,
    /// Events received on watches, bookmarks included.
    pub events: Counter,
    /// Bookmarks received.
    pub bookmarks: Counter,
    /// Bytes received.
    pub received_bytes: Counter,
    /// Objects that could not be cached, because they do not say which object they are.
    pub undecodable: Counter,
    /// Objects that are cached although their metadata is not what Kubernetes defines.
    pub ill_typed: Counter,
    /// Deltas that wait between reflector and cache.
    pub queued: Counter,
    /// Events that were merged because too many waited for a handler, those that are gone included.
    pub handler_merged: Counter,
    /// Events that a handler panicked on.
    pub handler_panics: Counter,
    /// Objects that are cached without a body, because the transform panicked on them or left nothing.
    pub transform_panics: Counter,
    /// How long it takes to bring deltas into the cache and to the handlers' mailboxes.
    pub(crate) processing: Processing,
    heard: Mutex<Option<Instant>>,
    failure: Mutex<Option<WatchFailure>>,
}

impl InformerMetrics {
    /// Time since the server last sent anything, bookmarks included; `None` before it sent anything. A healthy server
    /// sends a bookmark about each minute.
    pub fn silence(&self) -> Option<Duration> {
        self.heard.lock().expect("no holder of this lock panics").map(|heard| heard.elapsed())
    }

    /// The failure of the last list or watch, unless one has begun well since.
    pub fn last_failure(&self) -> Option<WatchFailure> {
        self.failure.lock().expect("no holder of this lock panics").clone()
    }

    /// Notes a failure.
    pub(crate) fn note_failure(&self, failure: &WatchFailure) {
        *self.failure.lock().expect("no holder of this lock panics") = Some(failure.clone());
    }

    /// Notes a request that went well.
    pub(crate) fn note_success(&self) {
        *self.failure.lock().expect("no holder of this lock panics") = None;
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

/// Durations by bucket. A third of the size of prometheus-client's histogram, and a cluster has many informers.
#[derive(Debug, Default)]
pub(crate) struct Processing {
    /// The last one counts what is above every bound.
    buckets: [AtomicU64; PROCESSING_SECONDS.len() + 1],
    nanos: AtomicU64,
}

impl Processing {
    pub fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = PROCESSING_SECONDS.iter().take_while(|bound| seconds > **bound).count();
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// All of them as one.
    pub fn encode<'a>(
        all: impl Iterator<Item = &'a Processing>,
        encoder: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        let (mut counts, mut nanos) = ([0; PROCESSING_SECONDS.len() + 1], 0);
        for processing in all {
            nanos += processing.nanos.load(Ordering::Relaxed);
            for (count, bucket) in counts.iter_mut().zip(&processing.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
        }
        let bounds = PROCESSING_SECONDS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let seconds = Duration::from_nanos(nanos).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(seconds, counts.iter().sum(), &buckets, None)
    }
}
