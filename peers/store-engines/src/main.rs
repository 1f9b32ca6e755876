//! Measures a durable write of 1 KiB in three engines: `cargo run --release -- FOLDER`.
//!
//! redb and fjall commit a batch of N writes with one sync, which is what they would do under our group commit;
//! setpoint-store has N writers that each wait for their own write.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_store::{Directory, Options, Store};

const VALUE: [u8; 1024] = [b'v'; 1024];
const TIME: Duration = Duration::from_secs(3);
const TABLE: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("objects");

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder to write to")).join("store-engines");
    for writers in [1, 16, 64] {
        let engines: [(&str, fn(&Path, u64) -> f64); 3] = [("redb", redb), ("fjall", fjall), ("setpoint", setpoint)];
        for (name, engine) in engines {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            let rate = engine(&folder, writers);
            println!("case=durable_writes/{writers} engine={name} value={rate:.0} unit=1/s");
            std::fs::remove_dir_all(&folder).expect("the folder can be removed");
        }
    }
}

fn key(n: u64) -> String {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000;
    format!("/registry/core/pods/namespace-{}/pod-{n:08}", n % 50)
}

/// Calls `commit` with the number of the first write of each batch until the time is up.
fn batches(size: u64, mut commit: impl FnMut(u64)) -> f64 {
    let started = Instant::now();
    let mut done = 0;
    while started.elapsed() < TIME {
        commit(done);
        done += size;
    }
    done as f64 / started.elapsed().as_secs_f64()
}

fn redb(folder: &Path, batch: u64) -> f64 {
    let database = redb::Database::create(folder.join("redb")).expect("a new database");
    batches(batch, |first| {
        let transaction = database.begin_write().expect("one writer");
        {
            let mut table = transaction.open_table(TABLE).expect("a table");
            for n in first..first + batch {
                table.insert(key(n).as_bytes(), VALUE.as_slice()).expect("room");
            }
        }
        transaction.commit().expect("a durable commit");
    })
}

fn fjall(folder: &Path, batch: u64) -> f64 {
    let database = fjall::Database::builder(folder.join("fjall")).open().expect("a new database");
    let keyspace = database.keyspace("objects", fjall::KeyspaceCreateOptions::default).expect("a keyspace");
    batches(batch, |first| {
        let mut writes = database.batch().durability(Some(fjall::PersistMode::SyncData));
        for n in first..first + batch {
            writes.insert(&keyspace, key(n), VALUE.as_slice());
        }
        writes.commit().expect("a durable commit");
    })
}

fn setpoint(folder: &Path, writers: u64) -> f64 {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
    runtime.block_on(async {
        let disk = Directory::new(folder.join("setpoint")).expect("a new folder");
        let (store, _) = Store::open(disk, Options::default()).await.expect("a new store");
        let started = Instant::now();
        let mut set = tokio::task::JoinSet::new();
        for writer in 0..writers {
            let store = store.clone();
            set.spawn(async move {
                let mut done = 0;
                while started.elapsed() < TIME {
                    let key = key(writer * 1_000_000 + done);
                    let write = store.transact(|_, txn| {
                        txn.put(key.clone(), Bytes::from_static(&VALUE));
                        Ok::<_, Infallible>(())
                    });
                    write.await.expect("a durable commit");
                    done += 1;
                }
                done
            });
        }
        let total: u64 = set.join_all().await.into_iter().sum();
        let rate = total as f64 / started.elapsed().as_secs_f64();
        store.shutdown().await;
        rate
    })
}
