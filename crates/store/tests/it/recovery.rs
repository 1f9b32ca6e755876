//! Findings at open: crashes on many seeds, damage, a second process, a full disk.

use std::convert::Infallible;

use setpoint_store::disk::faulty::{Faults, FaultyDisk};
use setpoint_store::{
    Cut, Disk, KeyRange, OpenError, Options, RESERVED_REVISIONS, ReadError, Recovery, Revision, Store,
    TxnError, WriteError,
};

use crate::crash::{Summary, run};
use crate::folder::Folder;

/// A slice of the seeds; `cargo run --release -p setpoint-store --example crash -- 1000` runs more.
const SEEDS: std::ops::Range<u64> = 0..80;

#[tokio::test]
async fn nothing_acknowledged_is_lost_on_any_seed() {
    let mut total = Summary::default();
    for seed in SEEDS {
        total.add(run(seed).await);
    }
    println!("{total:?}");
    assert!(total.acknowledged > 1000, "{total:?}");
    // A run that meets no trouble proves nothing.
    for count in [total.power_failures, total.kills, total.orderly, total.failed_syncs, total.refused_full] {
        assert!(count > 0, "{total:?}");
    }
    for count in [total.cuts, total.jumps, total.crashes_while_opening] {
        assert!(count > 0, "{total:?}");
    }
}

fn text(store: &Store, key: &str) -> Option<String> {
    store.snapshot().get(key.as_bytes()).map(|entry| String::from_utf8(entry.value.to_vec()).unwrap())
}

async fn put(store: &Store, key: &str, value: &str) -> Result<Revision, WriteError> {
    let (key, value) = (key.to_owned(), value.to_owned());
    let write = store.transact(|_, txn| {
        txn.put(key.clone(), value.clone());
        Ok::<_, Infallible>(())
    });
    match write.await {
        Ok(committed) => Ok(committed.revision),
        Err(TxnError::Write(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

async fn open(disk: &FaultyDisk) -> (Store, Recovery) {
    Store::open(disk.clone(), Options::default()).await.unwrap()
}

const LOG: &str = "log-0000000000000001";

#[tokio::test]
async fn one_store_at_a_time_has_a_folder() {
    let folder = Folder::new();
    let (store, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
    let second = Store::open(folder.disk(), Options::default()).await;
    assert!(matches!(second, Err(OpenError::Locked)));
    drop(store);
    Store::open(folder.disk(), Options::default()).await.unwrap();
}

#[tokio::test]
async fn a_real_folder_keeps_keys_blobs_and_history_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let (store, report) = Store::open(folder.disk(), Options::default()).await.unwrap();
    assert_eq!(report, Recovery::default());
    store.put_blob("ca.key", "secret").await.unwrap();
    let first = put(&store, "/a", "1").await.unwrap();
    let second = put(&store, "/a", "2").await.unwrap();
    store.shutdown().await;
    assert!(matches!(put(&store, "/a", "3").await, Err(WriteError::Closed)));
    assert!(matches!(store.put_blob("ca.key", "x").await, Err(WriteError::Closed)));
    store.shutdown().await;
    for file in std::fs::read_dir(folder.disk().path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.file_name());
    }
    let (store, report) = Store::open(folder.disk(), Options::default()).await.unwrap();
    assert_eq!(report, Recovery::default());
    assert_eq!(store.blob("ca.key").unwrap(), "secret");
    assert_eq!((store.revision(), text(&store, "/a").as_deref()), (second, Some("2")));
    let mut watch = store.watch(KeyRange::all(), first).unwrap();
    assert_eq!(watch.next().await.unwrap().events[0].revision, second);
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_reported() {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk).await;
    put(&store, "/a", "1").await.unwrap();
    drop(store);
    let whole = disk.contents_of(LOG).len() as u64;
    disk.open(LOG).unwrap().append(b"the beginning of somethi").unwrap();
    let (store, report) = open(&disk.after_kill()).await;
    assert_eq!(report.cut, Some(Cut { file: LOG.to_owned(), offset: whole, bytes: 24 }));
    assert_eq!(text(&store, "/a").as_deref(), Some("1"));
}

/// If any byte decays, the store reports it, or (in the last frame, which looks like a torn write) loses only that
/// frame. It never opens with other data than was written.
#[tokio::test]
async fn a_damaged_byte_anywhere_is_found() {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk).await;
    for n in 1..=3 {
        put(&store, "/a", &n.to_string()).await.unwrap();
    }
    drop(store);
    let len = disk.contents_of(LOG).len();
    let mut errors = 0;
    for offset in 0..len {
        let damaged = disk.after_kill();
        damaged.damage(LOG, offset);
        match Store::open(damaged, Options::default()).await {
            Err(OpenError::Damaged { .. }) => errors += 1,
            Err(error) => panic!("byte {offset}: {error}"),
            Ok((store, report)) => {
                assert_eq!(text(&store, "/a").as_deref(), Some("2"), "byte {offset}");
                assert!(report.cut.is_some(), "byte {offset}");
            }
        }
    }
    let last_frame = len - errors;
    assert!(errors > last_frame, "only the last of three frames may be taken for torn");
}

#[tokio::test]
async fn a_first_log_that_is_missing_or_empty_is_no_new_store() {
    let disk = FaultyDisk::new(5);
    let (store, _) = open(&disk).await;
    store.put_blob("ca.key", "secret").await.unwrap();
    put(&store, "/a", "1").await.unwrap();
    drop(store);
    let without = disk.after_kill();
    without.remove(LOG).unwrap();
    let emptied = disk.after_kill();
    emptied.open(LOG).unwrap().truncate(0).unwrap();
    for damaged in [without, emptied] {
        let error = Store::open(damaged, Options::default()).await.expect_err("it is needed");
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == LOG), "{error}");
    }
}

#[tokio::test]
async fn a_missing_or_damaged_checkpoint_is_an_error() {
    let options = Options { log_bytes: 200, ..Options::default() };
    let disk = FaultyDisk::new(1);
    let (store, _) = Store::open(disk.clone(), options.clone()).await.unwrap();
    for n in 0..20 {
        put(&store, &format!("/{n}"), "some value").await.unwrap();
    }
    drop(store);
    let names = disk.list().unwrap();
    let checkpoint =
        names.iter().find(|name| name.starts_with("checkpoint-")).expect("the log was long enough");
    let log = names.iter().find(|name| name.starts_with("log-")).unwrap();
    for offset in 0..disk.contents_of(checkpoint).len() {
        let damaged = disk.after_kill();
        damaged.damage(checkpoint, offset);
        let error = Store::open(damaged, options.clone()).await.expect_err("every byte counts");
        assert!(
            matches!(&error, OpenError::Damaged { file, .. } if file == checkpoint),
            "byte {offset}: {error}"
        );
    }
    for missing in [checkpoint, log] {
        let without = disk.after_kill();
        without.remove(missing).unwrap();
        let error = Store::open(without, options.clone()).await.expect_err("it is needed");
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
    let (store, _) = Store::open(disk.after_kill(), options).await.unwrap();
    assert_eq!(store.snapshot().count(&KeyRange::all()), 20);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk).await;
    let first = put(&store, "/a", "1").await.unwrap();
    disk.set_faults(Faults { capacity: Some(0), ..Faults::default() });
    assert!(matches!(put(&store, "/a", "2").await, Err(WriteError::Full(_))));
    assert!(matches!(store.put_blob("x", "y").await, Err(WriteError::Full(_))));
    assert_eq!((store.revision(), text(&store, "/a").as_deref()), (first, Some("1")));
    // Opening needs no room either.
    drop(store);
    let (store, _) = open(&disk).await;
    assert_eq!(text(&store, "/a").as_deref(), Some("1"));
    assert!(matches!(put(&store, "/a", "2").await, Err(WriteError::Full(_))));
    disk.set_faults(Faults::default());
    assert_eq!(put(&store, "/a", "3").await.unwrap(), first + 1);
    drop(store);
    assert_eq!(text(&open(&disk).await.0, "/a").as_deref(), Some("3"));
}

#[tokio::test]
async fn a_failed_sync_ends_writing_for_good() {
    let disk = FaultyDisk::new(1);
    let (store, _) = open(&disk).await;
    put(&store, "/a", "1").await.unwrap();
    disk.set_faults(Faults { sync_fails_after: Some(0), ..Faults::default() });
    assert!(matches!(put(&store, "/a", "2").await, Err(WriteError::Failed(_))));
    disk.set_faults(Faults::default());
    assert!(matches!(put(&store, "/a", "3").await, Err(WriteError::Failed(_))));
    assert!(matches!(store.put_blob("x", "y").await, Err(WriteError::Failed(_))));
    assert_eq!(text(&store, "/a").as_deref(), Some("1"), "reads go on");
    drop(store);
    let (store, _) = open(&disk.after_power_failure()).await;
    assert!(matches!(text(&store, "/a").as_deref(), Some("1" | "2")), "the failed write happened or did not");
    put(&store, "/a", "4").await.unwrap();
}

#[tokio::test]
async fn without_fsync_an_unclean_stop_jumps_and_an_orderly_one_does_not() {
    let options = Options { fsync: false, ..Options::default() };
    let disk = FaultyDisk::new(3);
    let (store, _) = Store::open(disk.clone(), options.clone()).await.unwrap();
    put(&store, "/a", "1").await.unwrap();
    store.shutdown().await;
    let disk = disk.after_power_failure();
    let (store, report) = Store::open(disk.clone(), options.clone()).await.unwrap();
    assert_eq!((report.jumped, text(&store, "/a").as_deref()), (None, Some("1")));
    let seen = put(&store, "/a", "2").await.unwrap();
    drop(store);
    let disk = disk.after_power_failure();
    let (store, report) = Store::open(disk, options).await.unwrap();
    let jump = report.jumped.expect("the stop was not orderly");
    assert_eq!((jump.to, store.revision()), (seen + RESERVED_REVISIONS, seen + RESERVED_REVISIONS));
    assert_eq!(store.watch(KeyRange::all(), seen).err(), Some(ReadError::Compacted { floor: jump.to }));
    assert_eq!(put(&store, "/a", "3").await.unwrap(), jump.to + 1);
}

#[tokio::test]
async fn a_file_of_another_version_is_refused() {
    let disk = FaultyDisk::new(1);
    drop(open(&disk).await);
    // The header as a later version would write it: another last byte of the magic, and the checksum to match.
    let mut header = disk.contents_of(LOG);
    header[7] = 2;
    let checksum = crc32fast::hash(&header[..32]);
    header[32..36].copy_from_slice(&checksum.to_le_bytes());
    disk.create(LOG).unwrap().append(&header).unwrap();
    let error = Store::open(disk, Options::default()).await.expect_err("nobody knows what is in it");
    assert!(matches!(error, OpenError::Version { found: 2, .. }), "{error}");
}
