//! Measures the store: `cargo run --release -p setpoint-store --example store_bench [-- FOLDER]`.
//! The file backend writes to FOLDER (default: the system's temporary folder), whose disk decides the cost of a sync.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // A measurement reads the clock and may give up.

use std::convert::Infallible;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_store::{Directory, KeyRange, Options, Store};
use tokio::task::JoinSet;

const ENTRIES: u64 = 100_000;
const VALUE: usize = 1024;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    match arguments.next() {
        Some(case) => run(&case, &folder.join("setpoint-store-bench")),
        // Each case in a process of its own, so that its memory is its own.
        None => {
            for case in ["memory", "history", "watch", "contended", "file", "reopen"] {
                let program = std::env::current_exe().unwrap();
                let status = std::process::Command::new(program).arg(&folder).arg(case).status().unwrap();
                assert!(status.success(), "{case}: {status}");
            }
        }
    }
}

fn run(case: &str, folder: &Path) {
    let single = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let multi = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match case {
        "memory" => single.block_on(memory()),
        "history" => single.block_on(history_memory()),
        "watch" => single.block_on(watchers()),
        "contended" => multi.block_on(contended()),
        "file" => {
            raw_sync(folder);
            for (fsync, writers) in [(true, 1), (true, 16), (true, 64), (false, 1), (false, 16), (false, 64)]
            {
                multi.block_on(file(folder, fsync, writers));
            }
        }
        "reopen" => multi.block_on(reopen(folder)),
        _ => panic!("{case}: no such case"),
    }
    let _ = std::fs::remove_dir_all(folder);
}

/// Times of short runs. The lower quartile is reported, because it excludes runs that shared the processor.
struct Laps {
    started: Instant,
    times: Vec<f64>,
}

const LAP: u64 = 500;

impl Laps {
    fn start() -> Self {
        Laps { started: Instant::now(), times: Vec::new() }
    }

    /// Called after each operation with its number.
    fn done(&mut self, n: u64) {
        if (n + 1).is_multiple_of(LAP) {
            self.times.push(self.started.elapsed().as_secs_f64() * 1e9 / LAP as f64);
            self.started = Instant::now();
        }
    }

    fn report(mut self, case: &str) {
        self.times.sort_by(f64::total_cmp);
        report(case, self.times[self.times.len() / 4], "ns");
    }
}

fn report(case: &str, value: f64, unit: &str) {
    println!("case={case} value={value:.2} unit={unit}");
}

fn key(n: u64) -> Bytes {
    Bytes::from(format!("/registry/core/pods/namespace-{}/pod-{n:08}", n % 50))
}

/// A value with its revision in it, as the API server writes them.
fn value(revision: u64) -> Bytes {
    let mut value = Vec::with_capacity(VALUE);
    write!(value, "{{\"resourceVersion\":\"{revision}\"").unwrap();
    value.resize(VALUE, b' ');
    value.into()
}

async fn update(store: &Store, n: u64) {
    let key = key(n);
    let write = store.transact(|snapshot, txn| {
        let _old = snapshot.get(&key);
        txn.put_with(key.clone(), value);
        Ok::<_, Infallible>(())
    });
    write.await.unwrap();
}

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES
}

/// Resident memory in bytes.
fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<f64>().unwrap() * 4096.0
}

async fn memory() {
    let before = resident();
    let store = Store::memory(Options::default());
    let mut laps = Laps::start();
    for n in 0..ENTRIES {
        update(&store, n).await;
        laps.done(n);
    }
    laps.report("memory/create");
    let used = (resident() - before) / ENTRIES as f64;
    report("memory/entry_with_its_create_event", used, "B");
    report("memory/entry_overhead", used - (VALUE + key(0).len()) as f64, "B");

    updates(&store, 1000, "memory/update_one_of_1000_keys").await;
    updates(&store, ENTRIES, "memory/update_one_of_100k_keys").await;
    let mut laps = Laps::start();
    for n in 0..50_000 {
        let held = store.snapshot();
        update(&store, scattered(n)).await;
        drop(held);
        laps.done(n);
    }
    laps.report("memory/update_while_a_snapshot_is_held");
    let mut laps = Laps::start();
    for n in 0..50_000 {
        assert!(store.snapshot().get(&key(scattered(n))).is_some());
        laps.done(n);
    }
    laps.report("memory/get");
    let mut laps = Laps::start();
    let snapshot = store.snapshot();
    for (n, entry) in (0..).zip(snapshot.range(&KeyRange::prefix("/registry/core/pods/"), None)) {
        assert_eq!(entry.value.len(), VALUE);
        laps.done(n);
    }
    laps.report("memory/list_entry");
    snapshots(&store);
}

async fn updates(store: &Store, keys: u64, case: &str) {
    let mut laps = Laps::start();
    for n in 0..50_000 {
        update(store, scattered(n) % keys).await;
        laps.done(n);
    }
    laps.report(case);
}

fn snapshots(store: &Store) {
    for back in [100, 4_000, 50_000] {
        let revision = store.revision() - back;
        for again in ["", "_again"] {
            let started = Instant::now();
            store.snapshot_at(revision).unwrap();
            report(
                &format!("memory/snapshot_at_{back}_back{again}"),
                started.elapsed().as_secs_f64() * 1e6,
                "us",
            );
        }
    }
    let mut laps = Laps::start();
    for n in 0..100_000 {
        std::hint::black_box(store.snapshot());
        laps.done(n);
    }
    laps.report("memory/snapshot");
    let mut laps = Laps::start();
    for n in 0..10_000 {
        std::hint::black_box(store.fork());
        laps.done(n);
    }
    laps.report("memory/fork");
}

async fn history_memory() {
    let store = Store::memory(Options { history_bytes: usize::MAX, ..Options::default() });
    for n in 0..ENTRIES {
        update(&store, n).await;
    }
    store.compact(store.revision());
    let before = resident();
    for n in 0..50_000 {
        update(&store, scattered(n)).await;
    }
    let each = (resident() - before) / 50_000.0;
    report("memory/history_of_10k_updates", each * 10_000.0 / 1e6, "MB");
    report("memory/history_overhead_per_update", each - VALUE as f64, "B");
}

async fn watchers() {
    const WATCHERS: u64 = 1000;
    const WRITES: u64 = 1000;
    let store = Store::memory(Options::default());
    let before = resident();
    let mut set = JoinSet::new();
    for _ in 0..WATCHERS {
        let mut watch = store.watch(KeyRange::prefix("/registry/core/pods/"), store.revision()).unwrap();
        set.spawn(async move {
            let mut seen = 0;
            while seen < WRITES {
                seen += watch.next().await.unwrap().events.len() as u64;
            }
        });
    }
    tokio::task::yield_now().await;
    report("watch/watcher_with_its_task", (resident() - before) / WATCHERS as f64, "B");
    let mut times = Vec::new();
    for n in 0..WRITES {
        let started = Instant::now();
        update(&store, n).await;
        tokio::task::yield_now().await;
        times.push(started.elapsed());
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
    times.sort();
    report("watch/delivery", times[times.len() / 4].as_secs_f64() * 1e9 / WATCHERS as f64, "ns");
    // Watchers of other ranges cost a commit next to nothing.
    let others: Vec<_> = (0..1000)
        .map(|n| store.watch(KeyRange::prefix(format!("/registry/other/{n}/")), store.revision()).unwrap())
        .collect();
    let mut laps = Laps::start();
    for n in 0..50_000 {
        update(&store, n).await;
        laps.done(n);
    }
    laps.report("watch/create_with_1000_watchers_elsewhere");
    drop(others);
}

async fn run_writers(store: &Store, writers: u64, limit: Duration) -> f64 {
    let started = Instant::now();
    let mut set = JoinSet::new();
    for writer in 0..writers {
        let store = store.clone();
        set.spawn(async move {
            let mut done = 0;
            while started.elapsed() < limit {
                update(&store, scattered(writer * 1_000_000 + done)).await;
                done += 1;
            }
            done
        });
    }
    let mut total = 0;
    while let Some(done) = set.join_next().await {
        total += done.unwrap();
    }
    total as f64 / started.elapsed().as_secs_f64()
}

async fn contended() {
    let store = Store::memory(Options::default());
    for writers in [1, 16] {
        let rate = run_writers(&store, writers, Duration::from_secs(1)).await;
        report(&format!("memory/commits_by_{writers}_tasks"), rate, "1/s");
    }
}

/// Measures an append of 1 KiB with a sync, without the store.
fn raw_sync(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut file = std::fs::File::create(folder.join("raw")).unwrap();
    let mut times: Vec<Duration> = (0..1000)
        .map(|_| {
            let started = Instant::now();
            file.write_all(&value(1)).unwrap();
            file.sync_data().unwrap();
            started.elapsed()
        })
        .collect();
    times.sort();
    report("disk/append_and_fdatasync_p50", times[500].as_secs_f64() * 1e6, "us");
    report("disk/append_and_fdatasync_p99", times[990].as_secs_f64() * 1e6, "us");
}

async fn file(folder: &Path, fsync: bool, writers: u64) {
    let path = folder.join(format!("{fsync}-{writers}"));
    let options = Options { fsync, ..Options::default() };
    let (store, _) = Store::open(Directory::new(&path).unwrap(), options).await.unwrap();
    let rate = run_writers(&store, writers, Duration::from_secs(3)).await;
    report(&format!("file/fsync_{fsync}_{writers}_writers"), rate, "1/s");
    store.shutdown().await;
    std::fs::remove_dir_all(&path).unwrap();
}

async fn reopen(folder: &Path) {
    let path = folder.join("reopen");
    let options = Options { fsync: false, ..Options::default() };
    let (store, _) = Store::open(Directory::new(&path).unwrap(), options.clone()).await.unwrap();
    for n in 0..ENTRIES {
        update(&store, n).await;
    }
    store.shutdown().await;
    let bytes: u64 =
        std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    report("file/on_disk_per_entry", bytes as f64 / ENTRIES as f64, "B");
    let started = Instant::now();
    let (store, _) = Store::open(Directory::new(&path).unwrap(), options).await.unwrap();
    report("file/open_100k_entries", started.elapsed().as_secs_f64() * 1e3, "ms");
    assert_eq!(store.snapshot().count(&KeyRange::all()), ENTRIES as usize);
}
