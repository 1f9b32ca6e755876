//! The work queues' metrics, read when somebody scrapes.

use std::fmt;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Labels;
use crate::queue::{self, BUCKETS, QueueReport, WorkQueue};

/// A queue of any keys.
struct Known {
    name: String,
    has_ended: Box<dyn Fn() -> bool + Send>,
    report: Box<dyn Fn() -> QueueReport + Send>,
}

impl Known {
    /// Keeps the counters of a queue that ended, and not its keys: they would be kept for as long as the program runs.
    fn keep_counters(&mut self) {
        let report = QueueReport { depths: Vec::new(), ..(self.report)() };
        self.has_ended = Box::new(|| true);
        self.report = Box::new(move || report.clone());
    }
}

/// Reads the queues, of any keys, when somebody scrapes.
#[derive(Default)]
pub(super) struct Queues(Mutex<Vec<Known>>);

impl Queues {
    pub(super) fn add<T: Clone + Eq + Hash + Send + 'static>(&self, queue: &WorkQueue<T>) {
        let (ending, reporting) = (queue.clone(), queue.clone());
        let mut known = self.0.lock().expect("no holder of this lock panics");
        // A controller that was stopped and came back under its name counts from zero, like a program that restarts.
        known.retain(|known| known.name != queue.name() || !(known.has_ended)());
        known.push(Known {
            name: queue.name().to_owned(),
            has_ended: Box::new(move || ending.shutting_down()),
            report: Box::new(move || reporting.report()),
        });
    }
}

impl Queues {
    /// The queue of this name has ended, with its workers.
    pub(super) fn ended(&self, name: &str) {
        let mut known = self.0.lock().expect("no holder of this lock panics");
        known
            .iter_mut()
            .filter(|known| known.name == name && (known.has_ended)())
            .for_each(Known::keep_counters);
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reports: Vec<(Labels, QueueReport)> = self
            .0
            .lock()
            .expect("no holder of this lock panics")
            .iter()
            .map(|Known { name, report, .. }| {
                (vec![("name", name.clone()), ("controller", name.clone())], report())
            })
            .collect();
        if reports.is_empty() {
            return Ok(());
        }
        let mut depth =
            encoder.encode_descriptor("workqueue_depth", "Keys that are ready", None, MetricType::Gauge)?;
        for (labels, report) in &reports {
            for (priority, count) in &report.depths {
                let labels: Labels =
                    labels.iter().cloned().chain([("priority", priority.to_string())]).collect();
                ConstGauge::new(*count as i64).encode(depth.encode_family(&labels)?)?;
            }
        }
        type Count = fn(&QueueReport) -> u64;
        let counters: [(&str, &str, Count); 2] = [
            ("workqueue_adds", "Keys that were queued", |report| report.stats.adds),
            ("workqueue_retries", "Delayed and rate-limited adds", |report| report.stats.retries),
        ];
        for (name, help, count) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, report) in &reports {
                ConstCounter::new(count(report)).encode(family.encode_family(labels)?)?;
            }
        }
        type Time = fn(&QueueReport) -> Duration;
        let gauges: [(&str, &str, Time); 2] = [
            ("workqueue_unfinished_work_seconds", "Work in progress", |report| report.unfinished),
            ("workqueue_longest_running_processor_seconds", "Longest work in progress", |report| {
                report.longest
            }),
        ];
        for (name, help, time) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, report) in &reports {
                ConstGauge::new(time(report).as_secs_f64()).encode(family.encode_family(labels)?)?;
            }
        }
        type Times = fn(&QueueReport) -> &queue::Histogram;
        let histograms: [(&str, &str, Times); 2] = [
            ("workqueue_queue_duration_seconds", "Time from added to taken", |report| &report.stats.waited),
            ("workqueue_work_duration_seconds", "Time with a worker", |report| &report.stats.worked),
        ];
        for (name, help, times) in histograms {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (labels, report) in &reports {
                let times = times(report);
                let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
                let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
                let sum = times.sum_nanos as f64 / 1e9;
                family.encode_family(labels)?.encode_histogram::<NoLabelSet>(
                    sum,
                    times.count(),
                    &buckets,
                    None,
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::Metrics;
    use crate::queue::{QueueOptions, WorkQueue};

    #[test]
    fn a_controller_that_comes_back_is_counted_once() {
        let metrics = Metrics::new();
        for adds in [2, 1] {
            let queue = WorkQueue::new("foos", QueueOptions::default());
            metrics.watch_queue(&queue);
            (0..adds).for_each(|key| queue.add(key));
            queue.shut_down();
        }
        let text = metrics.encode();
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("workqueue_adds_total")).collect();
        assert_eq!(lines, [r#"workqueue_adds_total{name="foos",controller="foos"} 1"#]);
    }

    #[tokio::test]
    async fn buckets_end_with_one_for_everything() {
        let (metrics, queue) = (Metrics::new(), WorkQueue::new("foos", QueueOptions::default()));
        metrics.watch_queue(&queue);
        queue.add(1);
        drop(queue.get().await);
        let text = metrics.encode();
        for name in ["workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"] {
            let all = format!(r#"{name}_bucket{{le="+Inf",name="foos",controller="foos"}} 1"#);
            assert!(text.contains(&all), "{text}");
        }
    }

    #[test]
    fn of_a_queue_that_has_ended_only_the_counts_remain() {
        let metrics = Metrics::new();
        let queue = WorkQueue::new("foos", QueueOptions::default());
        metrics.watch_queue(&queue);
        queue.add("key");
        queue.shut_down();
        assert!(metrics.encode().contains("workqueue_depth{"));
        metrics.queue_ended("foos");
        let text = metrics.encode();
        assert!(!text.contains("workqueue_depth{"), "{text}");
        assert!(text.contains(r#"workqueue_adds_total{name="foos",controller="foos"} 1"#), "{text}");
    }
}
