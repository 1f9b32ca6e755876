//! The informers' metrics, read when somebody scrapes.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Labels;
use crate::client::Caches;
use crate::informer::SharedInformer;

/// client-go's gauge keeps the last 15 digits of a resourceVersion: what a float shows exactly.
const EXACT: u64 = 1_000_000_000_000_000;

type Number = fn(&SharedInformer) -> u64;

const COUNTERS: [(&str, &str, Number); 12] = [
    ("setpoint_informer_lists", "List requests", |informer| informer.metrics().lists.get()),
    ("setpoint_informer_watches", "Watch requests", |informer| informer.metrics().watches.get()),
    ("setpoint_informer_short_watches", "Watches that ended at once", |i| i.metrics().short_watches.get()),
    ("setpoint_informer_watch_errors", "Failed lists and watches", |i| i.metrics().watch_errors.get()),
    ("setpoint_informer_replaces", "Full states received", |informer| informer.metrics().replaces.get()),
    ("setpoint_informer_events", "Events received", |informer| informer.metrics().events.get()),
    ("setpoint_informer_received_bytes", "Bytes received", |i| i.metrics().received_bytes.get()),
    ("setpoint_informer_undecodable", "Objects that could not be cached", |i| i.metrics().undecodable.get()),
    ("setpoint_informer_ill_typed", "Objects with metadata of another type", |informer| {
        informer.metrics().ill_typed.load(Ordering::Relaxed)
    }),
    ("setpoint_informer_handler_panics", "Events a handler panicked on", |i| {
        i.metrics().handler_panics.get()
    }),
    ("setpoint_informer_stale_events", "Events older than the cache", |i| i.store().stale_events()),
    ("setpoint_informer_handler_merged", "Events merged because too many waited", |informer| {
        informer.handler_lags().iter().map(|lag| lag.merged).sum()
    }),
];

const GAUGES: [(&str, &str, Number); 5] = [
    ("setpoint_cache_objects", "Objects in the cache", |informer| informer.store().len() as u64),
    ("setpoint_cache_bytes", "Bytes of the objects in the cache", |informer| informer.store().bytes()),
    ("informer_queued_items", "Changes that wait for the cache", |informer| informer.metrics().queued.get()),
    ("informer_store_resource_version", "Revision of the cache, last 15 digits", |informer| {
        informer.store().revision() % EXACT
    }),
    ("setpoint_informer_handler_lag", "Events that wait for handlers", |informer| {
        informer.handler_lags().iter().map(|lag| lag.waiting).sum()
    }),
];

/// All caches whose informers are reported.
#[derive(Default)]
pub(super) struct Informers(Mutex<Vec<Caches>>);

impl Informers {
    pub(super) fn add(&self, caches: &Caches) {
        self.0.lock().expect("no holder of this lock panics").push(caches.clone());
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Informers")
    }
}

impl Collector for Informers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let caches = self.0.lock().expect("no holder of this lock panics").clone();
        let informers: Vec<(Labels, SharedInformer)> = caches
            .iter()
            .flat_map(Caches::all)
            .map(|declared| (labels(declared.number, &declared.informer), declared.informer))
            .collect();
        if informers.is_empty() {
            return Ok(());
        }
        for (name, help, number) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, informer) in &informers {
                ConstCounter::new(number(informer)).encode(family.encode_family(labels)?)?;
            }
        }
        for (name, help, number) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, informer) in &informers {
                ConstGauge::new(number(informer) as i64).encode(family.encode_family(labels)?)?;
            }
        }
        let (name, help) = ("setpoint_informer_silence_seconds", "Time since the server last told anything");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, informer) in &informers {
            if let Some(silence) = informer.metrics().silence() {
                ConstGauge::new(silence.as_secs_f64()).encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// The number tells informers of one kind apart.
fn labels(number: usize, informer: &SharedInformer) -> Labels {
    let resource = &informer.target().resource;
    vec![
        ("name", number.to_string()),
        ("group", resource.group.clone()),
        ("version", resource.version.clone()),
        ("resource", resource.plural.clone()),
    ]
}
