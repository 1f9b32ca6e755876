//! The informers' numbers as Prometheus metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::metrics::Processing;
use super::shared::SharedInformer;
use crate::informer::factory::InformerFactory;
use crate::informer::watch::Namespaces;

/// Gauges hold 64-bit floats: client-go publishes the last fifteen digits of a version, so does this.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

/// Publishes the numbers of informers whenever a registry is scraped. Clones are the same collector. Several factories
/// belong into one, or the registry writes each family several times; what their informers of one target count is
/// added up, and of their gauges the largest is shown.
///
/// ```
/// use prometheus_client::registry::Registry;
/// use setpoint::informer::{InformerCollector, InformerFactory};
/// fn publish(factory: &InformerFactory, registry: &mut Registry) {
///     registry.register_collector(Box::new(InformerCollector::new(factory.clone())));
/// }
/// ```
#[derive(Clone, Default)]
pub struct InformerCollector(Arc<Mutex<Vec<InformerFactory>>>);

impl InformerCollector {
    /// For the informers that `factory` hands out, now and later.
    pub fn new(factory: InformerFactory) -> Self {
        let collector = InformerCollector::default();
        collector.add(factory);
        collector
    }

    /// Publishes those of this factory too.
    pub fn add(&self, factory: InformerFactory) {
        self.0.lock().expect("no holder of this lock panics").push(factory);
    }

    fn by_labels(&self) -> BTreeMap<Labels, Vec<SharedInformer>> {
        let mut informers = BTreeMap::<Labels, Vec<SharedInformer>>::new();
        for factory in self.0.lock().expect("no holder of this lock panics").iter() {
            for informer in factory.informers() {
                informers.entry(labels(&informer)).or_default().push(informer);
            }
        }
        informers
    }
}

impl fmt::Debug for InformerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InformerCollector")
    }
}

/// One number of an informer.
struct Series {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    value: fn(&SharedInformer) -> u64,
}

const fn counter(name: &'static str, help: &'static str, value: fn(&SharedInformer) -> u64) -> Series {
    Series { name, help, kind: MetricType::Counter, value }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&SharedInformer) -> u64) -> Series {
    Series { name, help, kind: MetricType::Gauge, value }
}

/// The first two have client-go's names; the others it does not publish.
const SERIES: [Series; 24] = [
    gauge("informer_queued_items", "Deltas that wait for the cache.", |informer| {
        informer.metrics().queued.get()
    }),
    gauge("informer_store_resource_version", "Last fifteen digits of the version reached.", |informer| {
        informer.store().revision() % VERSION_DIGITS
    }),
    gauge("setpoint_informer_synced", "One once the cache holds a full state.", |informer| {
        informer.has_synced().into()
    }),
    gauge("setpoint_cache_objects", "Objects in the cache.", |informer| informer.store().len() as u64),
    gauge("setpoint_cache_bytes", "Bytes that the cached objects take.", |informer| informer.store().bytes()),
    gauge("setpoint_cache_decoded_bytes", "Bytes of objects kept decoded.", |informer| {
        informer.store().decoded_bytes() as u64
    }),
    gauge("setpoint_informer_silence_seconds", "Time since the server last sent anything.", |informer| {
        informer.metrics().silence().map_or(0, |silence| silence.as_secs())
    }),
    gauge("setpoint_informer_handler_lag", "Events that wait for the slowest handler.", |informer| {
        informer.handler_lags().iter().map(|lag| lag.waiting).max().unwrap_or(0)
    }),
    counter("setpoint_informer_handler_merged", "Events merged because too many waited.", |informer| {
        informer.metrics().handler_merged.get()
    }),
    counter("setpoint_informer_handler_panics", "Events that a handler panicked on.", |informer| {
        informer.metrics().handler_panics.get()
    }),
    counter("setpoint_informer_watch_panics", "Watches that were begun anew after a panic.", |informer| {
        informer.metrics().watch_panics.get()
    }),
    counter(
        "setpoint_informer_transform_panics",
        "Objects that the transform panicked on or left nothing of.",
        |informer| informer.metrics().transform_panics.get(),
    ),
    counter(
        "setpoint_informer_index_panics",
        "Objects that the function of an index panicked on.",
        |informer| informer.store().snapshot().index_panics(),
    ),
    counter("setpoint_informer_lists", "List requests.", |informer| informer.metrics().lists.get()),
    counter("setpoint_informer_watches", "Watch requests.", |informer| informer.metrics().watches.get()),
    counter("setpoint_informer_short_watches", "Watches that ended at once without an event.", |informer| {
        informer.metrics().short_watches.get()
    }),
    counter("setpoint_informer_watch_errors", "Failures of a list or a watch.", |informer| {
        informer.metrics().watch_errors.get()
    }),
    counter("setpoint_informer_replaces", "Full states received.", |informer| {
        informer.metrics().replaces.get()
    }),
    counter("setpoint_informer_events", "Events received on watches.", |informer| {
        informer.metrics().events.get()
    }),
    counter("setpoint_informer_received_bytes", "Bytes received.", |informer| {
        informer.metrics().received_bytes.get()
    }),
    counter("setpoint_informer_stale_events", "Events older than what was cached.", |informer| {
        informer.store().stale_events()
    }),
    counter("setpoint_informer_undecodable", "Objects that could not be cached.", |informer| {
        informer.metrics().undecodable.get()
    }),
    counter("setpoint_informer_ill_typed", "Objects with metadata of another type.", |informer| {
        informer.metrics().ill_typed.get()
    }),
    counter(
        "setpoint_informer_decode_errors",
        "Typed reads of objects of another shape, and lists that left one out.",
        |informer| informer.store().decode_counts().2,
    ),
];

impl Collector for InformerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let informers = self.by_labels();
        if informers.is_empty() {
            return Ok(());
        }
        for series in &SERIES {
            let mut family = encoder.encode_descriptor(series.name, series.help, None, series.kind)?;
            for (labels, same) in &informers {
                let values = same.iter().map(series.value);
                let encoder = family.encode_family(labels)?;
                match series.kind {
                    MetricType::Counter => ConstCounter::new(values.sum::<u64>()).encode(encoder)?,
                    _ => {
                        let value = values.max().unwrap_or_default();
                        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(encoder)?;
                    }
                }
            }
        }
        let help = "Time taken to process events after popping from the queue.";
        let name = "informer_processing_latency_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, same) in &informers {
            let processing = same.iter().map(|informer| &informer.metrics().processing);
            Processing::encode(processing, &mut family.encode_family(labels)?)?;
        }
        Ok(())
    }
}

type Labels = [(&'static str, String); 4];

/// client-go's labels. The name says which part of the kind it is: informers of one kind differ in it.
fn labels(informer: &SharedInformer) -> Labels {
    let target = informer.target();
    let namespaces = match &target.namespaces {
        Namespaces::All => String::new(),
        Namespaces::Named(names) => names.iter().map(String::as_str).collect::<Vec<_>>().join(","),
        Namespaces::Labelled(selector) => format!("labelled {selector}"),
    };
    let metadata = target.metadata_only.then(|| "metadata".to_owned());
    let parts = [Some(namespaces), target.labels.clone(), target.fields.clone(), metadata];
    let part: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    [
        ("name", part.join("; ")),
        ("group", target.resource.group.clone()),
        ("version", target.resource.version.clone()),
        ("resource", target.resource.plural.clone()),
    ]
}
