//! The work queue: adds, gets and dones, end to end with four workers and as the pure core on one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use setpoint::Key;
use setpoint::metrics::Metrics;
use setpoint::queue::{KeyId, Queue, QueueOptions, Reason, WorkQueue};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::say;

const WORKERS: usize = 4;

pub fn run(arguments: &Arguments) -> Result<()> {
    let (keys, items) = (arguments.number("--keys")?, arguments.number("--items")?);
    let rounds = (items / keys).max(1);
    let requests: Vec<Key> = (0..keys)
        .map(|number| Key::namespaced(&format!("team-{}", number % 50), &format!("object-{number}")))
        .collect();
    for (name, metrics) in [("shell", None), ("measured", Some(Metrics::new()))] {
        let time = shell(Arc::new(requests.clone()), rounds, metrics.as_ref())?;
        rate(name, rounds * keys, time)?;
    }
    for fair in [false, true] {
        let (by_number, by_text) = core(&requests, rounds, fair);
        let name = if fair { "core_fair" } else { "core" };
        rate(name, rounds * keys, by_number)?;
        rate(&format!("{name}_by_text"), rounds * keys, by_text)?;
    }
    Ok(())
}

fn rate(name: &str, items: u64, time: Duration) -> Result<()> {
    let each = time.as_nanos() as f64 / items as f64;
    say(&format!("{name} per_second={:.0} nanos={each:.1}", items as f64 / time.as_secs_f64()))
}

fn options(fair: bool) -> QueueOptions<Key> {
    QueueOptions::with(|options| {
        options.fairness = fair.then_some(namespace as fn(&Key) -> u64);
        options.idle_keys = 2_000_000;
    })
}

fn namespace(key: &Key) -> u64 {
    let name = key.namespace().unwrap_or_default();
    name.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte))
}

/// One producer adds every key, four workers take and finish them; a round ends when all are done. Without metrics, as the
/// peer's queue has none; or with.
fn shell(requests: Arc<Vec<Key>>, rounds: u64, metrics: Option<&Metrics>) -> Result<Duration> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let keys = requests.len() as u64;
    Ok(runtime.block_on(async {
        let queue = WorkQueue::new("bench", QueueOptions::default());
        metrics.inspect(|metrics| metrics.watch_queue(&queue));
        let done = Arc::new(AtomicU64::new(0));
        let finished = Arc::new(Notify::new());
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..WORKERS {
            let (queue, done, finished) = (queue.clone(), Arc::clone(&done), Arc::clone(&finished));
            tasks.spawn(async move {
                let Some(mut item) = queue.get().await else { return };
                loop {
                    // Before it is given back: that waits for the next one.
                    if (done.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(keys) {
                        finished.notify_one();
                    }
                    if !item.advance().await {
                        return;
                    }
                }
            });
        }
        let begun = Instant::now();
        for _ in 0..rounds {
            let (producer, requests) = (queue.clone(), Arc::clone(&requests));
            tasks.spawn(async move {
                for key in requests.iter() {
                    producer.add_with(key, setpoint::queue::Priority::DEFAULT, Reason::MANUAL);
                    // Yield as the sources of a controller do: no task keeps its thread for itself.
                    tokio::task::coop::consume_budget().await;
                }
            });
            finished.notified().await;
        }
        let time = begun.elapsed();
        queue.shut_down();
        while tasks.join_next().await.is_some() {}
        time
    }))
}

/// The pure queue on this thread: all keys are added, then taken and finished. By number and by text.
fn core(requests: &[Key], rounds: u64, fair: bool) -> (Duration, Duration) {
    let mut queue = Queue::new(options(fair));
    let ids: Vec<KeyId> = requests.iter().map(|key| queue.intern(key)).collect();
    let mut now = Duration::from_secs(1);
    let mut drain = |queue: &mut Queue<Key>| {
        now += Duration::from_micros(1);
        while let Some(run) = queue.get(now) {
            queue.done(run.id, now);
        }
    };
    let begun = Instant::now();
    for _ in 0..rounds {
        for id in &ids {
            queue.add_id(*id, 0, Reason::MANUAL, Duration::from_secs(1));
        }
        drain(&mut queue);
    }
    let by_number = begun.elapsed();
    let begun = Instant::now();
    for _ in 0..rounds {
        for key in requests {
            queue.add(key, 0, Reason::MANUAL, Duration::from_secs(1));
        }
        drain(&mut queue);
    }
    (by_number, begun.elapsed())
}
