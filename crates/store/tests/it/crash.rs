//! No loss: writers on a disk that crashes at any call and loses, tears and reorders all unsynced data. After every
//! crash the store must hold exactly a prefix of the commits, with every acknowledged write in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use setpoint_store::disk::faulty::{Faults, FaultyDisk};
use setpoint_store::{
    KeyRange, OpenError, Options, ReadError, Recovery, Revision, Store, TxnError, WriteError,
};
use tokio::task::JoinSet;

const CRASHES: usize = 6;
const WRITERS: u64 = 4;
const KEYS: u64 = 12;

/// The faults that a run went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    pub acknowledged: usize,
    pub power_failures: usize,
    pub kills: usize,
    pub orderly: usize,
    pub failed_syncs: usize,
    pub refused_full: usize,
    pub cuts: usize,
    pub jumps: usize,
    pub crashes_while_opening: usize,
}

impl Summary {
    pub fn add(&mut self, other: Summary) {
        self.acknowledged += other.acknowledged;
        self.power_failures += other.power_failures;
        self.kills += other.kills;
        self.orderly += other.orderly;
        self.failed_syncs += other.failed_syncs;
        self.refused_full += other.refused_full;
        self.cuts += other.cuts;
        self.jumps += other.jumps;
        self.crashes_while_opening += other.crashes_while_opening;
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Expected {
    value: Bytes,
    create_revision: Revision,
    mod_revision: Revision,
    expires_at: Option<u64>,
}

type Write = (Bytes, Option<(Bytes, Option<u64>)>);

/// One transaction that was given a revision; whether it became durable only the disk knows.
#[derive(Clone)]
struct Attempt {
    id: u64,
    writes: Vec<Write>,
}

#[derive(Default)]
struct Model {
    attempts: BTreeMap<Revision, Attempt>,
    acknowledged: BTreeMap<Revision, u64>,
    /// Acknowledged without fsync, and lost.
    lost: Vec<Revision>,
    /// The newest revision that any client has seen.
    seen: Revision,
    blob: Option<Bytes>,
    blob_under_way: Option<Bytes>,
    summary: Summary,
    next_id: u64,
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ (mixed >> 29)) % sides
    }
}

/// Runs one seed. Panics when something was lost.
pub async fn run(seed: u64) -> Summary {
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let model: Arc<Mutex<Model>> = Arc::default();
    let mut disk = FaultyDisk::new(seed);
    // A run without fsync leaves acknowledged writes that only the next open syncs.
    let (mut unsynced, mut may_have_lost) = (false, false);
    // After a run that ended in order nothing may be amiss, whatever happens to the power since.
    let mut in_order = false;
    for crash in 0..CRASHES {
        let options = Options {
            fsync: dice.roll(3) > 0,
            log_bytes: [500, 4_000, 1 << 20][dice.roll(3) as usize],
            checkpoint_slice_bytes: [200, 2_000][dice.roll(2) as usize],
            ..Options::default()
        };
        let faults = faults(&mut dice);
        disk.set_faults(faults);
        let opened = Store::open(disk.clone(), options.clone()).await;
        let (store, report) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                assert!(matches!(error, OpenError::Io { .. }), "after crash {crash}: {error}");
                lock(&model).summary.crashes_while_opening += 1;
                may_have_lost |= unsynced && !disk.has_power();
                disk = if disk.has_power() { disk.after_kill() } else { disk.after_power_failure() };
                continue;
            }
        };
        assert!(!in_order || report == Recovery::default(), "{report:?} after an orderly end");
        verify(&store, &report, &mut lock(&model), may_have_lost);
        work(&store, &model, &mut dice).await;
        let end = dice.roll(3);
        if end == 0 {
            store.shutdown().await;
        }
        drop(store);
        let mut model = lock(&model);
        let refused = faults.sync_fails_after.is_some() || faults.capacity.is_some();
        in_order = end == 0 && disk.has_power() && !refused;
        let power_failed = end == 1 || !disk.has_power() || (in_order && dice.roll(2) == 0);
        unsynced = !options.fsync && !in_order;
        may_have_lost = power_failed && unsynced;
        match power_failed {
            true => model.summary.power_failures += 1,
            false if end == 0 => model.summary.orderly += 1,
            false => model.summary.kills += 1,
        }
        disk = if power_failed { disk.after_power_failure() } else { disk.after_kill() };
    }
    let (store, report) = Store::open(disk, Options::default()).await.unwrap();
    let mut model = lock(&model);
    verify(&store, &report, &mut model, may_have_lost);
    model.summary
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap()
}

fn faults(dice: &mut Dice) -> Faults {
    Faults {
        power_fails_after: (dice.roll(4) > 0).then(|| dice.roll(400)),
        sync_fails_after: (dice.roll(6) == 0).then(|| dice.roll(40)),
        capacity: (dice.roll(5) == 0).then(|| dice.roll(60_000) as usize),
    }
}

/// Some writers at once, until each has done its share or the store takes no more.
async fn work(store: &Store, model: &Arc<Mutex<Model>>, dice: &mut Dice) {
    let seen = model.clone();
    store.on_commit(move |events| {
        let mut model = lock(&seen);
        model.seen = model.seen.max(events[0].revision);
    });
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        writers.spawn(write_some(store.clone(), model.clone(), Dice(dice.roll(u64::MAX))));
    }
    if dice.roll(3) == 0 {
        writers.spawn(write_blob(store.clone(), model.clone(), Dice(dice.roll(u64::MAX))));
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
}

async fn write_some(store: Store, model: Arc<Mutex<Model>>, mut dice: Dice) {
    for _ in 0..dice.roll(40) {
        let id = {
            let mut model = lock(&model);
            model.next_id += 1;
            model.next_id
        };
        let writes = random_writes(&mut dice, id);
        let result = store
            .transact(|_, txn| {
                for (key, put) in &writes {
                    match put {
                        None => txn.delete(key.clone()),
                        Some((value, expires_at)) => {
                            let attempt = Attempt { id, writes: writes.clone() };
                            let (model, value) = (model.clone(), value.clone());
                            let put = txn.put_with(key.clone(), move |revision| {
                                lock(&model).attempts.insert(revision, attempt);
                                value
                            });
                            if let Some(at) = expires_at {
                                put.expires_at(*at);
                            }
                        }
                    }
                }
                Ok::<_, std::convert::Infallible>(())
            })
            .await;
        let mut model = lock(&model);
        match result {
            Ok(committed) => {
                assert!(store.revision() >= committed.revision, "what is acknowledged is visible");
                model.acknowledged.insert(committed.revision, id);
                model.seen = model.seen.max(committed.revision);
                model.summary.acknowledged += 1;
            }
            Err(TxnError::Write(WriteError::Full(_))) => {
                model.summary.refused_full += 1;
                model.attempts.retain(|_, attempt| attempt.id != id);
            }
            Err(TxnError::Write(WriteError::Failed(_))) => {
                model.summary.failed_syncs += 1;
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// One put at least, so that the attempt is noted; the others may be deletions.
fn random_writes(dice: &mut Dice, id: u64) -> Vec<Write> {
    let mut writes = BTreeMap::new();
    for _ in 0..dice.roll(3) {
        writes.insert(Bytes::from(format!("/k/{}", dice.roll(KEYS))), None);
    }
    for _ in 0..=dice.roll(2) {
        let filler = [0, 10, 200, 3_000][dice.roll(4) as usize];
        let value = Bytes::from(format!("{id}:{}", "v".repeat(filler)));
        let expires_at = (dice.roll(4) == 0).then(|| dice.roll(1_000_000));
        writes.insert(Bytes::from(format!("/k/{}", dice.roll(KEYS))), Some((value, expires_at)));
    }
    writes.into_iter().collect()
}

async fn write_blob(store: Store, model: Arc<Mutex<Model>>, mut dice: Dice) {
    let value = Bytes::from("b".repeat(dice.roll(1000) as usize));
    lock(&model).blob_under_way = Some(value.clone());
    let result = store.put_blob("ca.key", value.clone()).await;
    let mut model = lock(&model);
    match result {
        Ok(()) => {
            model.blob = Some(value);
            model.blob_under_way = None;
        }
        Err(WriteError::Full(_)) => model.blob_under_way = None,
        Err(_) => {}
    }
}

fn verify(store: &Store, report: &Recovery, model: &mut Model, may_have_lost: bool) {
    let revision = store.revision();
    let reached = report.jumped.map_or(revision, |jump| jump.from);
    model.summary.cuts += usize::from(report.cut.is_some());
    model.summary.jumps += usize::from(report.jumped.is_some());
    assert!(revision >= model.seen, "revision {revision} after {} was seen", model.seen);
    if may_have_lost {
        model.lost.extend(model.acknowledged.split_off(&(reached + 1)).into_keys());
    }
    for lost in &model.lost {
        let error = store.snapshot_at(*lost).expect_err("it is not what it was when it was seen");
        assert!(matches!(error, ReadError::Compacted { .. }), "{lost}: {error}");
    }
    let newest = model.acknowledged.last_key_value().map_or(0, |(revision, _)| *revision);
    assert!(reached >= newest, "revision {newest} was acknowledged, {reached} is there");
    model.attempts.split_off(&(reached + 1));
    for (revision, id) in &model.acknowledged {
        assert_eq!(model.attempts[revision].id, *id, "revision {revision} is not what was acknowledged");
    }
    verify_state(store, &fold(&model.attempts, reached));
    verify_history(store, report, model, reached);
    model.seen = model.seen.max(revision);
    let blob = store.blob("ca.key");
    assert!(
        blob == model.blob || blob == model.blob_under_way,
        "the blob is neither the old nor the new one"
    );
    model.blob = blob;
    model.blob_under_way = None;
}

fn fold(attempts: &BTreeMap<Revision, Attempt>, upto: Revision) -> BTreeMap<Bytes, Expected> {
    let mut state: BTreeMap<Bytes, Expected> = BTreeMap::new();
    for (&revision, attempt) in attempts.range(..=upto) {
        for (key, put) in &attempt.writes {
            let Some((value, expires_at)) = put else {
                state.remove(key);
                continue;
            };
            let create_revision = state.get(key).map_or(revision, |old| old.create_revision);
            let (value, expires_at) = (value.clone(), *expires_at);
            state
                .insert(key.clone(), Expected { value, create_revision, mod_revision: revision, expires_at });
        }
    }
    state
}

fn verify_state(store: &Store, expected: &BTreeMap<Bytes, Expected>) {
    let snapshot = store.snapshot();
    let found: BTreeMap<Bytes, Expected> = snapshot
        .range(&KeyRange::all(), None)
        .map(|entry| {
            let expected = Expected {
                value: entry.value.clone(),
                create_revision: entry.create_revision,
                mod_revision: entry.mod_revision,
                expires_at: entry.expires_at,
            };
            (entry.key.clone(), expected)
        })
        .collect();
    assert_eq!(&found, expected);
    let earliest = expected.values().filter_map(|entry| entry.expires_at).min();
    assert_eq!(store.next_expiry(), earliest);
}

/// From the floor on, every revision can be watched, and the state at each is as it was. Below the floor nothing can be
/// read, because the revisions there may be others than those that were seen.
fn verify_history(store: &Store, report: &Recovery, model: &Model, reached: Revision) {
    let floor = store.floor();
    let jumped = report.jumped.map(|jump| jump.to);
    assert!(jumped.is_none_or(|to| to == floor && to == store.revision()), "{report:?}, floor {floor}");
    let refused = Some(ReadError::Compacted { floor });
    assert_eq!(store.snapshot_at(floor - 1).err(), refused);
    assert_eq!(store.watch(KeyRange::all(), floor - 1).err(), refused);
    let mut watch = store.watch(KeyRange::all(), floor).unwrap();
    let mut watched = Vec::new();
    while let Some(batch) = watch.try_next().unwrap() {
        watched.extend(batch.events.iter().map(|event| event.revision));
    }
    watched.dedup();
    let expected: Vec<Revision> =
        model.attempts.keys().copied().filter(|revision| *revision > floor && *revision <= reached).collect();
    assert_eq!(watched, expected);
    if floor <= reached {
        let middle = floor + (reached - floor) / 2;
        let old: Vec<Bytes> = store
            .snapshot_at(middle)
            .unwrap()
            .range(&KeyRange::all(), None)
            .map(|entry| entry.value.clone())
            .collect();
        let state = fold(&model.attempts, middle);
        assert_eq!(old, state.values().map(|entry| entry.value.clone()).collect::<Vec<_>>());
    }
}
