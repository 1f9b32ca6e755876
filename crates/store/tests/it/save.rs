//! Copies of a store in other files.

use std::convert::Infallible;

use setpoint_store::disk::faulty::FaultyDisk;
use setpoint_store::{Disk, KeyRange, OpenError, Options, Revision, SaveError, Store};

use crate::folder::Folder;

async fn put(store: &Store, key: String, value: Vec<u8>) -> Revision {
    let write = store.transact(|_, txn| {
        txn.put(key.clone(), value.clone());
        Ok::<_, Infallible>(())
    });
    write.await.unwrap().revision
}

fn all(store: &Store) -> Vec<(Vec<u8>, Vec<u8>, Revision)> {
    let snapshot = store.snapshot();
    let entries = snapshot.range(&KeyRange::all(), None);
    entries.map(|entry| (entry.key.to_vec(), entry.value.to_vec(), entry.mod_revision)).collect()
}

#[tokio::test]
async fn a_copy_goes_on_where_the_store_was() {
    let store = Store::memory(Options::default());
    // More than one slice.
    for number in 0..40 {
        put(&store, format!("key-{number:02}"), vec![number; 200_000]).await;
    }
    store.put_blob("ca", &b"secret"[..]).await.unwrap();
    let folder = Folder::new();
    assert_eq!(store.save(&folder.disk()).unwrap(), store.revision());
    let (before, revision) = (all(&store), store.revision());
    put(&store, "later".into(), b"x".to_vec()).await;

    for round in 0..2 {
        let (copy, recovery) = Store::open(folder.disk(), Options::default()).await.unwrap();
        assert_eq!((recovery.cut, recovery.jumped), (None, None));
        assert_eq!(copy.blob("ca").as_deref(), Some(&b"secret"[..]));
        if round == 0 {
            assert_eq!((all(&copy), copy.revision()), (before.clone(), revision));
            assert_eq!(put(&copy, "own".into(), b"y".to_vec()).await, revision + 1);
        } else {
            assert_eq!((all(&copy).len(), copy.revision()), (before.len() + 1, revision + 1));
        }
        copy.shutdown().await;
    }
}

#[tokio::test]
async fn a_folder_with_files_and_one_in_use_are_left_alone() {
    let store = Store::memory(Options::default());
    let folder = Folder::new();
    store.save(&folder.disk()).unwrap();
    assert!(matches!(store.save(&folder.disk()), Err(SaveError::NotEmpty)));
    let (copy, _) = Store::open(folder.disk(), Options::default()).await.unwrap();
    assert!(matches!(store.save(&folder.disk()), Err(SaveError::Disk(_))));
    copy.shutdown().await;
}

#[tokio::test]
async fn an_unfinished_copy_is_no_store() {
    let store = Store::memory(Options::default());
    put(&store, "key".into(), b"value".to_vec()).await;
    store.put_blob("ca", &b"secret"[..]).await.unwrap();
    let disk = FaultyDisk::new(1);
    store.save(&disk).unwrap();
    let checkpoint = disk.list().unwrap().into_iter().find(|name| name.starts_with("checkpoint")).unwrap();
    // The last step of a copy is this renaming, backwards.
    disk.rename(&checkpoint, &format!("{checkpoint}.tmp")).unwrap();
    let refused = Store::open(disk, Options::default()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
}
