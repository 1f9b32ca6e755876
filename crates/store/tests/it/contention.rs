//! Many at once, on several threads.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use setpoint_store::{
    KeyRange, Options, Recovery, Revision, Snapshot, Store, Txn, TxnError, WatchError, WriteError,
};
use tokio::task::JoinSet;

use crate::folder::Folder;

const WRITERS: u64 = 16;

fn count(snapshot: &Snapshot, key: &str) -> u64 {
    snapshot
        .get(key.as_bytes())
        .map_or(0, |entry| std::str::from_utf8(&entry.value).unwrap().parse().unwrap())
}

fn increment(snapshot: &Snapshot, txn: &mut Txn) -> Result<(), Infallible> {
    let next = count(snapshot, "/counter") + 1;
    txn.put("/counter", next.to_string());
    Ok(())
}

async fn many_writers_of_one_key(store: Store, rounds: u64) {
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for _ in 0..rounds {
                store.transact(increment).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert_eq!(count(&store.snapshot(), "/counter"), WRITERS * rounds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_update_is_lost_among_many_writers_of_one_key() {
    many_writers_of_one_key(Store::memory(Options::default()), 500).await;
    let folder = Folder::new();
    let (store, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
    many_writers_of_one_key(store.clone(), 50).await;
    store.shutdown().await;
    let (store, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
    assert_eq!(count(&store.snapshot(), "/counter"), WRITERS * 50);
}

/// Whatever a writer is doing when the store is shut down, it gets an answer, and the answer is true.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn shutting_down_among_writers_answers_all_of_them() {
    for round in 0..20 {
        let folder = Folder::new();
        let (store, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = store.clone();
            writers.spawn(async move {
                let key = format!("/counter/{writer}");
                for n in 1.. {
                    let write = store.transact(|_, txn| {
                        txn.put(key.clone(), n.to_string());
                        Ok::<_, Infallible>(())
                    });
                    match write.await {
                        Ok(_) => {}
                        Err(TxnError::Write(WriteError::Closed)) => return (key, n - 1),
                        Err(error) => panic!("{error}"),
                    }
                }
                unreachable!("it ends with the store")
            });
        }
        store.reached(round * 10).await;
        store.shutdown().await;
        let answered = tokio::time::timeout(Duration::from_secs(30), writers.join_all());
        let acknowledged: Vec<(String, u64)> = answered.await.expect("nobody is left waiting");
        drop(store);
        let (store, report) = Store::open(folder.disk(), Options::default()).await.unwrap();
        assert_eq!(report, Recovery::default());
        for (key, n) in acknowledged {
            assert_eq!(count(&store.snapshot(), &key), n, "what was refused was not written, {key}");
        }
    }
}

/// Two keys, each written only when the other is absent: a decision that missed a change would let both in.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn decisions_on_a_range_see_every_change_in_it() {
    let store = Store::memory(Options::default());
    let mut writers = JoinSet::new();
    for writer in 0..8_u64 {
        let store = store.clone();
        writers.spawn(async move {
            let key = Bytes::from(format!("/seat/{writer}"));
            for _ in 0..300 {
                let take = store.transact(|snapshot, txn| {
                    let free = snapshot.count(&KeyRange::prefix("/seat/")) == 0;
                    if free {
                        txn.put(key.clone(), "");
                    }
                    Ok::<_, Infallible>(free)
                });
                if take.await.unwrap().value {
                    let leave = store.transact(|snapshot, txn| {
                        assert_eq!(snapshot.count(&KeyRange::prefix("/seat/")), 1);
                        txn.delete(key.clone());
                        Ok::<_, Infallible>(())
                    });
                    leave.await.unwrap();
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert_eq!(store.snapshot().count(&KeyRange::all()), 0);
}

type Values = BTreeMap<Bytes, Bytes>;

/// Watches until the revision `last`, and starts again from a list if compaction overtakes it. Returns its final
/// state, the store's state, and the number of events.
async fn follow(store: Store, range: KeyRange, last: Arc<AtomicU64>) -> (Values, Values, u64) {
    let mut events = 0;
    'list: loop {
        let snapshot = store.snapshot();
        let mut held: BTreeMap<Bytes, Revision> = BTreeMap::new();
        let mut values = Values::new();
        for entry in snapshot.range(&range, None) {
            held.insert(entry.key.clone(), entry.mod_revision);
            values.insert(entry.key.clone(), entry.value.clone());
        }
        let Ok(mut watch) = store.watch(range.clone(), snapshot.revision()) else { continue 'list };
        let mut seen = snapshot.revision();
        loop {
            if seen >= last.load(Ordering::Acquire) {
                let snapshot = store.snapshot();
                let stored =
                    snapshot.range(&range, None).map(|entry| (entry.key.clone(), entry.value.clone()));
                return (values, stored.collect(), events);
            }
            let batch = match watch.next().await {
                Ok(batch) => batch,
                Err(WatchError::Compacted { .. }) => continue 'list,
                Err(error) => panic!("{error}"),
            };
            for event in &batch.events {
                assert!(event.revision > seen, "events come in order, each once");
                assert_eq!(event.old.as_ref().map(|old| old.mod_revision), held.get(&event.key).copied());
                events += 1;
                match &event.new {
                    Some(new) => {
                        held.insert(event.key.clone(), new.mod_revision);
                        values.insert(event.key.clone(), new.value.clone());
                    }
                    None => {
                        held.remove(&event.key);
                        values.remove(&event.key);
                    }
                }
            }
            seen = batch.revision;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_miss_nothing_while_history_is_compacted_under_them() {
    let store = Store::memory(Options { history_events: 200, ..Options::default() });
    let last = Arc::new(AtomicU64::new(Revision::MAX));
    let mut watchers = JoinSet::new();
    for range in [KeyRange::all(), KeyRange::prefix("/p/"), KeyRange::prefix("/p/1"), KeyRange::key("/p/3")] {
        for _ in 0..3 {
            watchers.spawn(follow(store.clone(), range.clone(), last.clone()));
        }
    }
    for n in 0..20_000_u64 {
        let write = store.transact(|snapshot, txn| {
            let key = format!("/{}/{}", if n % 3 == 0 { "q" } else { "p" }, n % 17);
            match snapshot.get(key.as_bytes()) {
                Some(_) if n % 5 == 0 => txn.delete(key),
                _ => _ = txn.put(key, n.to_string()),
            }
            Ok::<_, Infallible>(())
        });
        write.await.unwrap();
        if n % 1000 == 0 {
            store.compact(store.revision());
        }
        if n % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    // One more write in every range, so that each watcher has something to see at the end.
    last.store(store.revision() + 1, Ordering::Release);
    let write = store.transact(|_, txn| {
        txn.put("/p/1", "end");
        txn.put("/p/3", "end");
        Ok::<_, Infallible>(())
    });
    write.await.unwrap();
    let mut events = 0;
    while let Some(done) = watchers.join_next().await {
        let (values, stored, seen) = done.unwrap();
        assert_eq!(values, stored);
        events += seen;
    }
    assert!(events > 0, "at least some events were watched, not listed");
}
