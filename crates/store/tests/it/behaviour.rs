//! The promises of each operation, one per test.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use setpoint_store::disk::faulty::FaultyDisk;
use setpoint_store::{KeyRange, Options, ReadError, Revision, Store, TxnError, WatchError, WriteError};

use crate::folder::Folder;

async fn put(store: &Store, key: &str, value: &str) -> Revision {
    let (key, value) = (key.to_owned(), value.to_owned());
    let write = store.transact(|_, txn| {
        txn.put(key.clone(), value.clone());
        Ok::<_, Infallible>(())
    });
    write.await.unwrap().revision
}

async fn delete(store: &Store, key: &str) -> Revision {
    let key = key.to_owned();
    let write = store.transact(|_, txn| {
        txn.delete(key.clone());
        Ok::<_, Infallible>(())
    });
    write.await.unwrap().revision
}

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The same promises on every backend.
async fn on_every_backend(options: Options, test: impl AsyncFn(Store)) {
    test(Store::memory(options.clone())).await;
    test(Store::open(FaultyDisk::new(1), options.clone()).await.unwrap().0).await;
    let folder = Folder::new();
    test(Store::open(folder.disk(), options.clone()).await.unwrap().0).await;
    let folder = Folder::new();
    let options = Options { fsync: false, ..options };
    test(Store::open(folder.disk(), options).await.unwrap().0).await;
}

#[tokio::test]
async fn a_transaction_writes_several_keys_at_one_revision() {
    on_every_backend(Options::default(), async |store| {
        put(&store, "/a", "1").await;
        let committed = store
            .transact(|snapshot, txn| {
                let old = snapshot.get(b"/a").unwrap();
                txn.delete("/a");
                txn.put("/b", old.value.clone());
                txn.put_with("/c", |revision| Bytes::from(revision.to_string()));
                Ok::<_, Infallible>(old.mod_revision)
            })
            .await
            .unwrap();
        assert_eq!(committed.revision, committed.value + 1);
        assert!(committed.events.iter().all(|event| event.revision == committed.revision));
        let snapshot = store.snapshot();
        assert!(snapshot.get(b"/a").is_none());
        assert_eq!(text(&snapshot.get(b"/b").unwrap().value), "1");
        assert_eq!(text(&snapshot.get(b"/c").unwrap().value), committed.revision.to_string());
    })
    .await;
}

#[tokio::test]
async fn what_changes_nothing_takes_no_revision() {
    on_every_backend(Options::default(), async |store| {
        let before = store.revision();
        delete(&store, "/absent").await;
        let refused = store.transact(|_, txn| {
            txn.put("/a", "1");
            Err::<(), _>("no")
        });
        assert!(matches!(refused.await, Err(TxnError::Decide("no"))));
        store.transact(|_, _| Ok::<_, Infallible>(())).await.unwrap();
        assert_eq!(store.revision(), before);
    })
    .await;
}

#[tokio::test]
async fn creation_and_modification_are_told_apart() {
    on_every_backend(Options::default(), async |store| {
        let created = put(&store, "/a", "1").await;
        let updated = put(&store, "/a", "2").await;
        let entry = store.snapshot().get(b"/a").unwrap();
        assert_eq!((entry.create_revision, entry.mod_revision), (created, updated));
        delete(&store, "/a").await;
        let again = put(&store, "/a", "3").await;
        assert_eq!(store.snapshot().get(b"/a").unwrap().create_revision, again);
    })
    .await;
}

#[tokio::test]
async fn ranges_are_in_key_order_and_can_be_resumed() {
    on_every_backend(Options::default(), async |store| {
        for key in ["/p/c", "/p/a", "/q/a", "/p/b"] {
            put(&store, key, "").await;
        }
        let snapshot = store.snapshot();
        let range = KeyRange::prefix("/p/");
        let keys = |from: Option<&[u8]>| -> Vec<String> {
            snapshot.range(&range, from).map(|entry| text(&entry.key).to_owned()).collect()
        };
        assert_eq!(keys(None), ["/p/a", "/p/b", "/p/c"]);
        assert_eq!(keys(Some(b"/p/a\0")), ["/p/b", "/p/c"]);
        assert_eq!(keys(Some(b"/p/d")), [""; 0]);
        assert_eq!(snapshot.count(&range), 3);
    })
    .await;
}

#[tokio::test]
async fn old_revisions_read_as_they_were_until_compacted() {
    on_every_backend(Options::default(), async |store| {
        let first = put(&store, "/a", "1").await;
        let second = put(&store, "/a", "2").await;
        let third = delete(&store, "/a").await;
        assert_eq!(text(&store.snapshot_at(first).unwrap().get(b"/a").unwrap().value), "1");
        assert_eq!(text(&store.snapshot_at(second).unwrap().get(b"/a").unwrap().value), "2");
        assert!(store.snapshot_at(third).unwrap().get(b"/a").is_none());
        assert_eq!(store.snapshot_at(third + 1).unwrap_err(), ReadError::Future { current: third });
        store.compact(second);
        assert_eq!(store.snapshot_at(first).unwrap_err(), ReadError::Compacted { floor: second });
        assert_eq!(store.snapshot_at(second).unwrap().revision(), second);
        store.compact(third + 10);
        assert_eq!(store.floor(), third);
    })
    .await;
}

#[tokio::test]
async fn history_stays_within_its_bounds() {
    on_every_backend(Options { history_events: 10, ..Options::default() }, async |store| {
        for n in 0..100 {
            put(&store, "/a", &n.to_string()).await;
        }
        assert_eq!(store.floor(), store.revision() - 10);
    })
    .await;
    on_every_backend(Options { history_bytes: 10_000, ..Options::default() }, async |store| {
        for _ in 0..100 {
            put(&store, "/a", &"x".repeat(1000)).await;
        }
        let kept = store.revision() - store.floor();
        assert!((1..10).contains(&kept), "{kept} revisions of 1000 bytes kept in 10,000 bytes");
    })
    .await;
}

#[tokio::test]
async fn history_ages_when_the_owner_tells_the_time() {
    let store = Store::memory(Options { history_age: Duration::from_secs(160), ..Options::default() });
    store.age(0);
    let early = put(&store, "/a", "1").await;
    store.age(10_000);
    put(&store, "/a", "2").await;
    store.age(169_999);
    assert!(store.snapshot_at(early).is_ok(), "at 10 s it was the newest revision");
    store.age(170_000);
    assert_eq!(store.floor(), early);
}

#[tokio::test]
async fn a_watch_starts_in_the_past_and_goes_on() {
    on_every_backend(Options::default(), async |store| {
        let first = put(&store, "/p/a", "1").await;
        put(&store, "/q/a", "other").await;
        let third = put(&store, "/p/b", "2").await;
        let mut watch = store.watch(KeyRange::prefix("/p/"), first).unwrap();
        assert_eq!(watch.progress(), first);
        let batch = watch.next().await.unwrap();
        assert_eq!((batch.events.len(), batch.events[0].revision, batch.revision), (1, third, third));
        assert!(watch.try_next().unwrap().is_none());
        let other = put(&store, "/q/b", "").await;
        assert!(watch.try_next().unwrap().is_none());
        assert_eq!(watch.progress(), other);
        let gone = delete(&store, "/p/a").await;
        let batch = watch.next().await.unwrap();
        let event = &batch.events[0];
        assert_eq!((event.revision, batch.revision), (gone, gone));
        assert_eq!(text(&event.old.as_ref().unwrap().value), "1");
        assert!(event.new.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_watch_is_closed_only_when_it_misses_something() {
    on_every_backend(Options::default(), async |store| {
        let mut idle = store.watch(KeyRange::prefix("/idle/"), store.revision()).unwrap();
        let mut slow = store.watch(KeyRange::prefix("/busy/"), store.revision()).unwrap();
        let mut late = store.watch(KeyRange::key("/busy/1"), store.revision()).unwrap();
        for n in 0..10 {
            put(&store, &format!("/busy/{n}"), "").await;
        }
        let floor = store.revision();
        store.compact(floor);
        assert_eq!(slow.try_next().unwrap_err(), WatchError::Compacted { floor });
        assert_eq!(late.try_next().unwrap_err(), WatchError::Compacted { floor });
        assert!(idle.try_next().unwrap().is_none());
        put(&store, "/idle/x", "").await;
        assert_eq!(idle.next().await.unwrap().events.len(), 1);
        assert_eq!(store.watch(KeyRange::all(), floor - 1).err(), Some(ReadError::Compacted { floor }));
    })
    .await;
}

#[tokio::test]
async fn a_batch_never_splits_a_revision() {
    on_every_backend(Options::default(), async |store| {
        let start = store.revision();
        let mut watch = store.watch(KeyRange::all(), start).unwrap();
        for n in 0..3 {
            let write = store.transact(|_, txn| {
                for key in 0..200 {
                    txn.put(format!("/{key}"), n.to_string());
                }
                Ok::<_, Infallible>(())
            });
            write.await.unwrap();
        }
        let mut past = store.watch(KeyRange::all(), start).unwrap();
        for watch in [&mut watch, &mut past] {
            let first = watch.try_next().unwrap().unwrap();
            assert_eq!((first.events.len(), first.revision), (400, start + 2));
            let second = watch.try_next().unwrap().unwrap();
            assert_eq!((second.events.len(), second.revision), (200, start + 3));
            assert!(watch.try_next().unwrap().is_none());
        }
    })
    .await;
}

#[tokio::test]
async fn expired_keys_are_deleted_one_revision_each() {
    on_every_backend(Options::default(), async |store| {
        for (key, at) in [("/e/1", 1000), ("/e/2", 1000), ("/e/3", 2000)] {
            let write = store.transact(|_, txn| {
                txn.put(key, "").expires_at(at);
                Ok::<_, Infallible>(())
            });
            write.await.unwrap();
        }
        assert_eq!(store.next_expiry(), Some(1000));
        let before = store.revision();
        assert_eq!(store.expire(999).await.unwrap(), 0);
        assert_eq!(store.expire(1500).await.unwrap(), 2);
        assert_eq!(store.revision(), before + 2);
        put(&store, "/e/3", "a later put without expiry keeps it").await;
        assert_eq!(store.next_expiry(), None);
        assert_eq!(store.expire(5000).await.unwrap(), 0);
        assert!(store.snapshot().get(b"/e/3").is_some());
    })
    .await;
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    on_every_backend(Options::default(), async |store| {
        let at = put(&store, "/a", "1").await;
        let fork = store.fork();
        put(&store, "/a", "2").await;
        put(&fork, "/b", "3").await;
        assert_eq!(text(&fork.snapshot().get(b"/a").unwrap().value), "1");
        assert!(store.snapshot().get(b"/b").is_none());
        assert_eq!((fork.revision(), fork.floor()), (at + 1, store.floor()));
        let before = fork.snapshot_at(at).unwrap();
        assert!(before.get(b"/a").is_some() && before.get(b"/b").is_none(), "the past is the same");
    })
    .await;
}

#[tokio::test]
async fn memos_are_made_once() {
    on_every_backend(Options::default(), async |store| {
        put(&store, "/a", "12").await;
        let entry = store.snapshot().get(b"/a").unwrap();
        assert_eq!(*entry.memo(|entry| entry.value.len()), 2);
        assert_eq!(*entry.memo::<usize>(|_| panic!("it was made already")), 2);
        let write = store.transact(|_, txn| {
            txn.put("/b", "").memo(7_usize);
            Ok::<_, Infallible>(())
        });
        let committed = write.await.unwrap();
        assert_eq!(*store.snapshot().get(b"/b").unwrap().memo::<usize>(|_| panic!("the writer gave it")), 7);
        assert_eq!(committed.events[0].memo(|event| event.revision), &committed.revision);
    })
    .await;
}

#[tokio::test]
async fn hooks_see_every_commit_in_order() {
    on_every_backend(Options::default(), async |store| {
        let seen: Arc<Mutex<Vec<(Revision, usize)>>> = Arc::default();
        let (log, handle) = (seen.clone(), store.clone());
        store.on_commit(move |events| {
            assert!(handle.revision() >= events[0].revision, "what a hook is told is visible");
            log.lock().unwrap().push((events[0].revision, events.len()));
        });
        let first = put(&store, "/a", "1").await;
        let second = delete(&store, "/a").await;
        assert_eq!(*seen.lock().unwrap(), [(first, 1), (second, 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_closed_store_ends_watches_and_refuses_writes() {
    on_every_backend(Options::default(), async |store| {
        put(&store, "/a", "1").await;
        let mut watch = store.watch(KeyRange::all(), store.revision()).unwrap();
        let (ended, ()) = tokio::join!(biased; watch.next(), store.shutdown());
        assert_eq!(ended.unwrap_err(), WatchError::Closed);
        let write = store.transact(|_, txn| {
            txn.put("/a", "2");
            Ok::<_, Infallible>(())
        });
        assert!(matches!(write.await, Err(TxnError::Write(WriteError::Closed))));
        assert_eq!(text(&store.snapshot().get(b"/a").unwrap().value), "1");
    })
    .await;
}

#[tokio::test]
async fn reached_waits_for_a_revision() {
    on_every_backend(Options::default(), async |store| {
        let target = store.revision() + 1;
        let ((), revision) = tokio::join!(biased; store.reached(target), put(&store, "/a", "1"));
        assert_eq!(revision, target);
    })
    .await;
}

#[test]
fn a_writer_to_memory_never_waits() {
    let store = Store::memory(Options::default());
    let write = std::pin::pin!(put(&store, "/a", "1"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(write.poll(&mut context).is_ready(), "and needs no runtime");
}

#[tokio::test]
async fn a_hook_that_panics_on_the_logs_thread_leaves_nobody_waiting() {
    let folder = Folder::new();
    let (store, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
    store.on_commit(|events| assert_ne!(events[0].key, "/bad", "as the test wants it"));
    put(&store, "/good", "1").await;
    put(&store, "/bad", "it has happened by the time that a hook is told").await;
    let write = store.transact(|_, txn| {
        txn.put("/later", "1");
        Ok::<_, Infallible>(())
    });
    assert!(matches!(write.await, Err(TxnError::Write(WriteError::Failed(_)))));
    assert!(store.snapshot().get(b"/bad").is_some(), "reads go on");
}

#[tokio::test]
async fn a_full_store_refuses_what_grows_and_takes_it_again_once_there_is_room() {
    let options = Options { quota_bytes: 100_000, history_bytes: 1000, ..Options::default() };
    on_every_backend(options, async |store| {
        let large = "x".repeat(40_000);
        put(&store, "/a", &large).await;
        put(&store, "/b", &large).await;
        let more = store.transact(|_, txn| {
            txn.put("/c", large.clone());
            Ok::<_, Infallible>(())
        });
        assert!(matches!(more.await, Err(TxnError::Write(WriteError::Quota))));
        assert!(store.snapshot().get(b"/c").is_none());
        assert_eq!(text(&store.snapshot().get(b"/a").unwrap().value).len(), 40_000);
        put(&store, "/a", &format!("{large}y")).await;
        delete(&store, "/b").await;
        put(&store, "/c", &large).await;
    })
    .await;
}
