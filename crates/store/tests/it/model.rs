//! The store against a model that keeps every state whole: any sequence of operations, on every backend, gives the
//! same answers.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use proptest::prelude::*;
use setpoint_store::disk::faulty::FaultyDisk;
use setpoint_store::{
    Entry, FIRST_REVISION, KeyRange, Options, ReadError, Revision, Snapshot, Store, Watch, WatchError,
};

/// A value, and when it expires.
type Put = (Bytes, Option<u64>);

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(Bytes, Option<Put>)>),
    Expire(u64),
    Compact(u64),
    ReadAt(u64),
    Watch(KeyRange, u64),
    Poll(usize),
    Reopen { orderly: bool },
    Fork,
}

fn key() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec!["/a/x", "/a/y", "/ab", "/b/x", "/b/y", "/b/y/z", "/c"]).prop_map(Bytes::from)
}

fn range() -> impl Strategy<Value = KeyRange> {
    prop_oneof![
        prop::sample::select(vec!["", "/a", "/a/", "/b/", "/nothing/"]).prop_map(KeyRange::prefix),
        key().prop_map(KeyRange::key),
        (key(), key()).prop_map(|(start, end)| KeyRange::between(start, end)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let put = (0..100_u32, prop::option::weighted(0.2, 0..50_u64))
        .prop_map(|(n, at)| (Bytes::from(n.to_string()), at));
    let write = (key(), prop::option::weighted(0.7, put));
    prop_oneof![
        8 => prop::collection::vec(write, 1..4).prop_map(Step::Write),
        1 => (0..60_u64).prop_map(Step::Expire),
        1 => (0..40_u64).prop_map(Step::Compact),
        3 => (0..40_u64).prop_map(Step::ReadAt),
        2 => (range(), 0..40_u64).prop_map(|(range, back)| Step::Watch(range, back)),
        4 => (0..8_usize).prop_map(Step::Poll),
        1 => any::<bool>().prop_map(|orderly| Step::Reopen { orderly }),
        1 => Just(Step::Fork),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    value: Bytes,
    create_revision: Revision,
    mod_revision: Revision,
    expires_at: Option<u64>,
}

impl From<&Entry> for Kept {
    fn from(entry: &Entry) -> Self {
        Kept {
            value: entry.value.clone(),
            create_revision: entry.create_revision,
            mod_revision: entry.mod_revision,
            expires_at: entry.expires_at,
        }
    }
}

type State = BTreeMap<Bytes, Kept>;
type Change = (Revision, Bytes, Option<Kept>, Option<Kept>);

struct Model {
    states: BTreeMap<Revision, State>,
    changes: Vec<Change>,
    floor: Revision,
}

impl Model {
    fn new() -> Self {
        let states = BTreeMap::from([(FIRST_REVISION, State::new())]);
        Model { states, changes: Vec::new(), floor: FIRST_REVISION }
    }

    fn newest(&self) -> (Revision, &State) {
        self.states.last_key_value().map(|(revision, state)| (*revision, state)).unwrap()
    }

    fn write(&mut self, writes: &BTreeMap<Bytes, Option<Put>>) {
        let (revision, state) = self.newest();
        let (revision, mut state) = (revision + 1, state.clone());
        let mut changes = Vec::new();
        for (key, put) in writes {
            let old = state.remove(key);
            let new = put.clone().map(|(value, expires_at)| Kept {
                value,
                create_revision: old.as_ref().map_or(revision, |old| old.create_revision),
                mod_revision: revision,
                expires_at,
            });
            if let Some(new) = &new {
                state.insert(key.clone(), new.clone());
            }
            if old.is_some() || new.is_some() {
                changes.push((revision, key.clone(), old, new));
            }
        }
        if !changes.is_empty() {
            self.changes.extend(changes);
            self.states.insert(revision, state);
        }
    }

    fn expire(&mut self, now: u64) -> usize {
        let mut due: Vec<(u64, Bytes)> =
            self.newest().1.iter().filter_map(|(k, e)| Some((e.expires_at?, k.clone()))).collect();
        due.retain(|(at, _)| *at <= now);
        due.sort();
        for (_, key) in &due {
            self.write(&BTreeMap::from([(key.clone(), None)]));
        }
        due.len()
    }

    fn check(&self, revision: Revision) -> Result<(), ReadError> {
        let current = self.newest().0;
        match revision {
            _ if revision < self.floor => Err(ReadError::Compacted { floor: self.floor }),
            _ if revision > current => Err(ReadError::Future { current }),
            _ => Ok(()),
        }
    }
}

/// A watch, and up to where the model has seen it deliver.
struct Watcher {
    watch: Watch,
    range: KeyRange,
    delivered: Revision,
}

fn assert_same(snapshot: &Snapshot, state: &State) {
    let found: State =
        snapshot.range(&KeyRange::all(), None).map(|e| (e.key.clone(), Kept::from(&**e))).collect();
    assert_eq!(&found, state);
    for range in [KeyRange::prefix("/a"), KeyRange::key("/b/x"), KeyRange::between("/ab", "/b/y/")] {
        let expected: Vec<&Bytes> = state.keys().filter(|key| range.contains(key)).collect();
        let found: Vec<&Bytes> = snapshot.range(&range, None).map(|entry| &entry.key).collect();
        assert_eq!(found, expected);
        assert_eq!(snapshot.count(&range), expected.len());
        let later: Vec<&Bytes> = snapshot.range(&range, Some(b"/b/")).map(|entry| &entry.key).collect();
        assert_eq!(
            later,
            expected.into_iter().filter(|key| key.as_ref() >= b"/b/".as_slice()).collect::<Vec<_>>()
        );
    }
}

/// False when the watch has ended.
fn poll(watcher: &mut Watcher, model: &Model) -> bool {
    let waiting = |change: &&Change| change.0 > watcher.delivered && watcher.range.contains(&change.1);
    let expected: Vec<&Change> = model.changes.iter().filter(waiting).collect();
    match watcher.watch.try_next() {
        Err(error) => {
            assert_eq!(error, WatchError::Compacted { floor: model.floor });
            assert!(watcher.delivered < model.floor, "nothing that it had not seen was compacted");
            return false;
        }
        Ok(None) => {
            assert!(expected.is_empty());
            assert_eq!(watcher.watch.progress(), model.newest().0);
            watcher.delivered = model.newest().0;
        }
        Ok(Some(batch)) => {
            let expected: Vec<_> = expected.into_iter().filter(|change| change.0 <= batch.revision).collect();
            assert_eq!(batch.events.len(), expected.len(), "all that it says it has delivered");
            for (event, (revision, key, old, new)) in batch.events.iter().zip(expected) {
                assert_eq!((event.revision, &event.key), (*revision, key));
                assert_eq!(event.old.as_deref().map(Kept::from), *old);
                assert_eq!(event.new.as_deref().map(Kept::from), *new);
            }
            watcher.delivered = batch.revision;
        }
    }
    true
}

struct World {
    store: Store,
    disk: Option<FaultyDisk>,
    options: Options,
    model: Model,
    watchers: Vec<Watcher>,
}

impl World {
    async fn step(&mut self, step: Step) {
        let (current, _) = self.model.newest();
        match step {
            Step::Write(writes) => self.write(writes.into_iter().collect()).await,
            Step::Expire(now) => {
                let expected = self.model.expire(now);
                assert_eq!(self.store.expire(now).await.unwrap(), expected);
            }
            Step::Compact(back) => {
                let below = (current + 3).saturating_sub(back);
                self.store.compact(below);
                self.model.floor = self.model.floor.max(below.min(current));
            }
            Step::ReadAt(back) => {
                let revision = (current + 3).saturating_sub(back);
                match (self.store.snapshot_at(revision), self.model.check(revision)) {
                    (Ok(snapshot), Ok(())) => assert_same(&snapshot, &self.model.states[&revision]),
                    (found, expected) => assert_eq!(found.err(), expected.err()),
                }
            }
            Step::Watch(range, back) => {
                let after = (current + 3).saturating_sub(back);
                match self.store.watch(range.clone(), after) {
                    Ok(watch) => self.watchers.push(Watcher { watch, range, delivered: after }),
                    Err(error) => assert_eq!(Err(error), self.model.check(after)),
                }
            }
            Step::Poll(which) if which < self.watchers.len() => {
                if !poll(&mut self.watchers[which], &self.model) {
                    self.watchers.swap_remove(which);
                }
            }
            Step::Poll(_) => {}
            Step::Reopen { orderly } => self.reopen(orderly).await,
            Step::Fork => {
                self.store = self.store.fork();
                self.disk = None;
                self.watchers.clear();
            }
        }
        assert_eq!((self.store.revision(), self.store.floor()), (self.model.newest().0, self.model.floor));
        assert_same(&self.store.snapshot(), self.model.newest().1);
    }

    async fn write(&mut self, writes: BTreeMap<Bytes, Option<Put>>) {
        let before = self.model.changes.len();
        self.model.write(&writes);
        let committed = self
            .store
            .transact(|_, txn| {
                for (key, put) in &writes {
                    match put {
                        None => txn.delete(key.clone()),
                        Some((value, None)) => _ = txn.put(key.clone(), value.clone()),
                        Some((value, Some(at))) => _ = txn.put(key.clone(), value.clone()).expires_at(*at),
                    }
                }
                Ok::<_, Infallible>(())
            })
            .await
            .unwrap();
        assert_eq!(committed.revision, self.model.newest().0);
        assert_eq!(committed.events.len(), self.model.changes.len() - before);
    }

    async fn reopen(&mut self, orderly: bool) {
        let Some(disk) = &self.disk else { return };
        if orderly {
            self.store.shutdown().await;
            self.disk = Some(disk.after_kill());
        } else {
            self.disk = Some(disk.after_power_failure());
        }
        let disk = self.disk.clone().unwrap();
        let (store, report) = Store::open(disk, self.options.clone()).await.unwrap();
        assert_eq!(report.jumped, None);
        // History begins with the last checkpoint.
        assert!(store.floor() <= self.model.newest().0);
        self.model.floor = store.floor();
        self.store = store;
        self.watchers.clear();
    }
}

fn run(steps: Vec<Step>, on_disk: bool, log_bytes: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let options = Options { log_bytes, checkpoint_slice_bytes: 50, ..Options::default() };
        let disk = on_disk.then(|| FaultyDisk::new(7));
        let store = match &disk {
            None => Store::memory(options.clone()),
            Some(disk) => Store::open(disk.clone(), options.clone()).await.unwrap().0,
        };
        let mut world = World { store, disk, options, model: Model::new(), watchers: Vec::new() };
        for step in steps {
            world.step(step).await;
        }
        while let Some(mut watcher) = world.watchers.pop() {
            while poll(&mut watcher, &world.model) && watcher.delivered < world.model.newest().0 {}
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_sequence_of_operations_agrees_with_the_model(
        steps in prop::collection::vec(step(), 1..80),
        on_disk: bool,
        log_bytes in prop::sample::select(vec![100_u64, 2_000, 1 << 20]),
    ) {
        run(steps, on_disk, log_bytes);
    }
}
