//! Measures the work queue: `cargo run --release -p setpoint --example queue`.
//!
//! Prints one line a case. `core` is the pure queue on one thread: add, get and done of every key, by number (as a
//! caller does that interned the key) and by text. `shell` is the shared queue with four workers and one producer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use setpoint::Request;
use setpoint::queue::{KeyId, Queue, QueueOptions, Reason, WorkQueue};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Items per case, so that small sizes are measured long enough.
const ITEMS: usize = 4_000_000;
const WORKERS: usize = 4;

fn requests(count: usize) -> Vec<Request> {
    (0..count)
        .map(|number| Request::namespaced(&format!("team-{}", number % 50), &format!("object-{number}")))
        .collect()
}

fn flow(request: &Request) -> u64 {
    request
        .namespace()
        .map_or(0, |namespace| namespace.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte)))
}

fn options(fair: bool) -> QueueOptions<Request> {
    QueueOptions {
        fairness: fair.then_some(flow as fn(&Request) -> u64),
        idle_keys: 2_000_000,
        ..QueueOptions::default()
    }
}

fn drain(queue: &mut Queue<Request>, now: Duration) {
    while let Some(run) = queue.get(now) {
        queue.done(run.id, now);
    }
}

/// The time that this thread ran on a processor, so that a busy machine does not show. Wall-clock time where the
/// system does not tell.
// A benchmark reads the machine's clock.
#[allow(clippy::disallowed_methods)]
fn timed(work: impl FnOnce()) -> Duration {
    let ran = || -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
    };
    let (start, before) = (Instant::now(), ran());
    work();
    ran().zip(before).map_or_else(|| start.elapsed(), |(after, before)| after - before)
}

fn core(size: usize, fair: bool) {
    let requests = requests(size);
    let mut queue = Queue::new(options(fair));
    let ids: Vec<KeyId> = requests.iter().map(|request| queue.intern(request)).collect();
    let rounds = (ITEMS / size).max(1);
    let mut now = Duration::from_secs(1);
    let by_number = timed(|| {
        for _ in 0..rounds {
            now += Duration::from_micros(1);
            for id in &ids {
                queue.add_id(*id, 0, Reason::MANUAL, now);
            }
            drain(&mut queue, now);
        }
    });
    let by_text = timed(|| {
        for _ in 0..rounds {
            now += Duration::from_micros(1);
            for request in &requests {
                queue.add(request, 0, Reason::MANUAL, now);
            }
            drain(&mut queue, now);
        }
    });
    for (case, time) in [("core-by-number", by_number), ("core-by-text", by_text)] {
        let items = (rounds * size) as f64;
        println!(
            "case={case} keys={size} fair={fair} items_per_s={:.0} ns_per_item={:.1}",
            items / time.as_secs_f64(),
            time.as_nanos() as f64 / items
        );
    }
}

fn shell(size: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let requests = Arc::new(requests(size));
    let rounds = (ITEMS / size).max(1);
    let time = runtime.block_on(async {
        let queue = WorkQueue::new("bench", options(true));
        let done = Arc::new(AtomicUsize::new(0));
        let finished = Arc::new(tokio::sync::Notify::new());
        let goal = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..WORKERS {
            let (queue, done) = (queue.clone(), Arc::clone(&done));
            let (finished, goal) = (Arc::clone(&finished), Arc::clone(&goal));
            tasks.spawn(async move {
                let mut next = queue.get().await;
                while let Some(item) = next {
                    if done.fetch_add(1, Ordering::Relaxed) + 1 == goal.load(Ordering::Relaxed) {
                        finished.notify_one();
                    }
                    next = WorkQueue::next(item).await;
                }
            });
        }
        // A benchmark reads the machine's clock.
        #[allow(clippy::disallowed_methods)]
        let start = Instant::now();
        for round in 1..=rounds {
            let (producer, requests) = (queue.clone(), Arc::clone(&requests));
            goal.store(round * size, Ordering::Relaxed);
            tasks.spawn(async move {
                for request in requests.iter() {
                    producer.add_with(request, setpoint::Priority::DEFAULT, Reason::MANUAL);
                }
            });
            while done.load(Ordering::Relaxed) < round * size {
                finished.notified().await;
            }
        }
        let total = start.elapsed();
        queue.shut_down();
        while tasks.join_next().await.is_some() {}
        total
    });
    let items = (rounds * size) as f64;
    println!(
        "case=shell-{WORKERS}-workers keys={size} items_per_s={:.0} ns_per_item={:.1}",
        items / time.as_secs_f64(),
        time.as_nanos() as f64 / items
    );
}

fn main() {
    for fair in [false, true] {
        for size in SIZES {
            core(size, fair);
        }
    }
    for size in [1_000, 1_000_000] {
        shell(size);
    }
}
