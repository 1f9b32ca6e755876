//! Kills a process that writes, at random moments, and looks whether everything that it acknowledged is there:
//! `cargo run --release -p setpoint-store --example kill -- TIMES [FOLDER]`.
#![allow(clippy::unwrap_used)] // This is a test.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use setpoint_store::{Directory, Options, Recovery, Snapshot, Store};
use tokio::task::JoinSet;

const WRITERS: u64 = 8;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let times: u64 = arguments.next().map_or(200, |times| times.parse().expect("how often to kill"));
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("setpoint-store-kill");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if std::env::args().nth(3).is_some_and(|role| role == "write") {
        return runtime.block_on(write(&folder, times));
    }
    let _ = std::fs::remove_dir_all(&folder);
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let (mut moment, mut cuts, mut seen) = (1_u64, 0, 0);
    for round in 0..times {
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let told = run_and_kill(round, folder.parent().unwrap(), (moment >> 33) % 300);
        for (key, n) in told {
            acknowledged.insert(key, n);
        }
        let (found, revision, report) = runtime.block_on(look(&folder));
        assert!(revision >= seen, "round {round}: revision {revision} after {seen}");
        seen = revision;
        cuts += u64::from(report.cut.is_some());
        for (key, n) in &acknowledged {
            let there = found.get(key).copied().unwrap_or(0);
            assert!(there >= *n, "round {round}: {key} was acknowledged at {n}, and is {there}");
        }
        acknowledged = found;
    }
    std::fs::remove_dir_all(&folder).unwrap();
    let writes: u64 = acknowledged.values().sum();
    println!("ok: {times} kills, {writes} writes, {cuts} torn tails cut, revision {seen}");
}

/// Runs the writer until it has acknowledged `writes` writes while others are in flight, then kills it. Returns the
/// acknowledged writes. With `writes` 0, kills the writer while it starts.
fn run_and_kill(round: u64, folder: &Path, writes: u64) -> Vec<(String, u64)> {
    let program = std::env::current_exe().unwrap();
    let mut writer = Command::new(program)
        .arg(round.to_string())
        .arg(folder)
        .arg("write")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said: Vec<String> = lines.by_ref().take(writes as usize).collect();
    writer.kill().unwrap();
    said.extend(lines);
    writer.wait().unwrap();
    let parse = |line: &String| line.split_once(' ').map(|(key, n)| (key.to_owned(), n.parse().unwrap()));
    said.iter().filter_map(parse).collect()
}

fn count(snapshot: &Snapshot, key: &str) -> u64 {
    let entry = snapshot.get(key.as_bytes());
    entry.map_or(0, |entry| std::str::from_utf8(&entry.value).unwrap().trim_end().parse().unwrap())
}

/// Counts up under several keys at once, and says so once a write is acknowledged.
async fn write(folder: &Path, round: u64) {
    // A killed process loses nothing that the system has, synced or not.
    let options = Options { fsync: !round.is_multiple_of(3), log_bytes: 100_000, ..Options::default() };
    let (store, _) = Store::open(Directory::new(folder).unwrap(), options).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let key = format!("/counter/{writer}");
            loop {
                let write = store.transact(|snapshot, txn| {
                    let next = count(snapshot, &key) + 1;
                    txn.put(key.clone(), format!("{next}{}", " ".repeat((next % 50) as usize * 40)));
                    Ok::<_, Infallible>(next)
                });
                let n = write.await.unwrap().value;
                std::io::stdout().write_all(format!("{key} {n}\n").as_bytes()).unwrap();
            }
        });
    }
    writers.join_next().await;
}

async fn look(folder: &Path) -> (BTreeMap<String, u64>, u64, Recovery) {
    let (store, report) = Store::open(Directory::new(folder).unwrap(), Options::default()).await.unwrap();
    let snapshot = store.snapshot();
    let keys = (0..WRITERS).map(|writer| format!("/counter/{writer}"));
    (keys.map(|key| (key.clone(), count(&snapshot, &key))).collect(), store.revision(), report)
}
