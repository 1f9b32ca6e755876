//! The store of one kind: who writes it, who reads it, who waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::Notify;

use super::decode::DecodeCache;
use super::delta::Delta;
use super::event::Event;
use super::index::{Index, IndexConflict, IndexState};
use super::object::{Object, Uid};
use super::snapshot::{Progress, Scope, Snapshot, State};
use crate::key::Key;
use crate::revision::Revision;

/// Deletions remembered, so that an older event that arrives late does not bring an object back. The oldest is
/// forgotten first.
const REMEMBERED_DELETIONS: usize = 4096;

/// The objects of one kind, shared by everyone in the process who reads that kind.
///
/// Reads take a [`Snapshot`] or go through a [`crate::informer::Lister`]. Writers are the informers, through [`Store::apply`].
/// Cheap to clone: clones are the same store.
#[derive(Clone, Default)]
pub struct Store(Arc<Shared>);

struct Shared {
    state: RwLock<Arc<State>>,
    writer: Mutex<Writer>,
    /// Wakes those who wait, after each change that was published.
    published: Notify,
    bytes: AtomicU64,
    /// Bytes of the texts that objects are kept as differences from.
    base_bytes: Arc<AtomicU64>,
    stale_events: AtomicU64,
    decoded: DecodeCache,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            state: RwLock::default(),
            writer: Mutex::default(),
            published: Notify::new(),
            bytes: AtomicU64::new(0),
            base_bytes: Arc::default(),
            stale_events: AtomicU64::new(0),
            decoded: DecodeCache::default(),
        }
    }
}

#[derive(Default)]
struct Writer {
    deleted: BTreeMap<Key, Revision>,
    deletion_order: VecDeque<(Key, Revision)>,
}

/// How a wait for the cache ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The awaited state is in the cache.
    Seen,
    /// The server went back to an older revision meanwhile: what was waited for may never come.
    Reset,
    /// The cache does not cover that namespace, now or any more.
    NotCovered,
}

impl Store {
    /// An empty store whose typed objects are kept decoded up to about `decoded_bytes`.
    pub fn new(decoded_bytes: usize) -> Self {
        let shared = Shared { decoded: DecodeCache::new(decoded_bytes), ..Shared::default() };
        Store(Arc::new(shared))
    }

    /// The present state, pinned.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.0.state.read().expect("no holder of this lock panics").clone())
    }

    /// One object by its key, `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<Object> {
        self.0.state.read().expect("no holder of this lock panics").objects.get(key).cloned()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.state.read().expect("no holder of this lock panics").objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the objects hold, with the texts that many are kept as differences from. Interned labels and owners
    /// are not counted.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed) + self.0.base_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn base_bytes(&self) -> &Arc<AtomicU64> {
        &self.0.base_bytes
    }

    /// Events dropped because the cache had seen a newer state of the object already.
    pub fn stale_events(&self) -> u64 {
        self.0.stale_events.load(Ordering::Relaxed)
    }

    /// The revision up to which everything has been seen in all scopes.
    pub fn revision(&self) -> Revision {
        self.0.state.read().expect("no holder of this lock panics").revision()
    }

    /// How far the scope has got that objects in `namespace` belong to; `None` when the store does not cover it.
    pub fn progress(&self, namespace: Option<&str>) -> Option<Progress> {
        self.0.state.read().expect("no holder of this lock panics").scope_of(namespace)
    }

    /// Bytes that typed objects are estimated to take which were decoded lately.
    pub fn decoded_bytes(&self) -> usize {
        self.0.decoded.bytes()
    }

    /// Typed reads served without decoding, typed reads that decoded, and typed reads that failed to.
    pub fn decode_counts(&self) -> (u64, u64, u64) {
        self.0.decoded.counts()
    }

    /// Adds an index; it is filled from what is cached already.
    ///
    /// # Errors
    /// When there is one with that name.
    pub fn add_index(&self, index: Index) -> Result<(), IndexConflict> {
        self.write(|_, state| {
            if state.indexes.iter().any(|known| known.index.name == index.name) {
                return Err(IndexConflict { name: index.name.to_string() });
            }
            let mut filled = IndexState::new(index);
            for object in state.objects.values() {
                filled.change(None, Some(object));
            }
            state.indexes.push(filled);
            Ok(())
        })
    }

    /// Whether there is an index with that name.
    pub fn has_index(&self, name: &str) -> bool {
        let state = self.0.state.read().expect("no holder of this lock panics");
        state.indexes.iter().any(|known| *known.index.name == *name)
    }

    /// Applies one change within `scope` and tells what it did to the cached objects.
    ///
    /// An event that is older than what is cached changes nothing. A replacement deletes what it does not contain;
    /// those deletions are marked as inferred. An object that was deleted and made anew under its name gives a
    /// deletion and an addition, never an update. [`Delta::Sync`] gives an update of each object to what it is.
    pub fn apply(&self, scope: &Scope, delta: Delta) -> Vec<Event> {
        let mut events = Vec::new();
        self.apply_all(scope, [delta], &mut events);
        events
    }

    /// Applies changes as one: readers see all of them or none.
    pub fn apply_all(&self, scope: &Scope, deltas: impl IntoIterator<Item = Delta>, events: &mut Vec<Event>) {
        let mut deltas = deltas.into_iter().peekable();
        let is_large = matches!(deltas.peek(), Some(Delta::Replaced { .. } | Delta::Sync));
        let change = |writer: &mut Writer, state: &mut State| {
            let mut change = Change { store: &self.0, writer, state, events };
            for delta in deltas {
                change.apply(scope, delta);
            }
        };
        if is_large { self.write_aside(change) } else { self.write(change) }
    }

    /// Forgets a scope and what was cached in it.
    pub fn remove_scope(&self, scope: &Scope) -> Vec<Event> {
        let mut events = Vec::new();
        self.write(|writer, state| {
            let mut change = Change { store: &self.0, writer, state, events: &mut events };
            change.retain(scope, |_| false);
            change.state.scopes.remove(scope);
        });
        events
    }

    /// Declares a scope, not yet synced: the store's revision is zero until it is.
    pub fn add_scope(&self, scope: &Scope) {
        self.write(|_, state| {
            state.scopes.entry(scope);
        });
    }

    /// Notes that the consistent list with this number has been applied to `scope`.
    pub(crate) fn note_relist(&self, scope: &Scope, number: u64) {
        self.write(|_, state| state.scopes.entry(scope).relists = number);
    }

    /// Whether every scope has had its first full state.
    pub fn all_scopes_synced(&self) -> bool {
        self.0
            .state
            .read()
            .expect("no holder of this lock panics")
            .scopes
            .values()
            .all(|progress| progress.synced)
    }

    /// Waits until the scope of `namespace` has seen `revision`. It has no deadline of its own.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_until(&self, namespace: Option<&str>, revision: Revision) -> Waited {
        let first = self.progress(namespace).map(|progress| progress.epoch);
        self.wait(|state| match (state.scope_of(namespace), first) {
            (Some(now), Some(epoch)) if now.epoch != epoch => Some(Waited::Reset),
            (Some(now), _) if now.synced && now.revision >= revision => Some(Waited::Seen),
            (Some(_), _) => None,
            (None, _) => Some(Waited::NotCovered),
        })
        .await
    }

    /// Waits until the object that had `uid` under `key` is gone from the cache.
    ///
    /// Dropping the future ends the wait and changes nothing.
    pub async fn wait_gone(&self, key: &Key, uid: &Uid) -> Waited {
        self.wait(|state| match state.objects.get(key) {
            Some(object) if object.uid() == uid => None,
            _ => Some(Waited::Seen),
        })
        .await
    }

    /// Exchanges objects for their compressed form, where they are still the cached ones. Nobody is told: nothing
    /// changed.
    pub(crate) fn swap_packed(&self, mut packed: Vec<(Object, Object)>) {
        // Most of what a sweep looks at is small already: readers need not wait for that.
        if packed.is_empty() {
            return;
        }
        let _writer = self.0.writer.lock().expect("no holder of this lock panics");
        let mut state = self.0.state.write().expect("no holder of this lock panics");
        // Looked up first: to change even one copies what a reader holds.
        packed.retain(|(raw, _)| state.objects.get(raw.key()).is_some_and(|cached| cached.ptr_eq(raw)));
        if packed.is_empty() {
            return;
        }
        let objects = &mut Arc::make_mut(&mut state).objects;
        for (raw, packed) in packed {
            self.0.bytes.fetch_add(packed.heap_bytes() as u64, Ordering::Relaxed);
            self.0.bytes.fetch_sub(raw.heap_bytes() as u64, Ordering::Relaxed);
            objects.insert(raw.key().clone(), packed);
        }
    }

    /// Ends at the first change after this call: call it, look, then await it.
    pub fn next_change(&self) -> impl Future<Output = ()> + Send + '_ {
        self.0.published.notified()
    }

    pub(crate) fn decoded(&self) -> &DecodeCache {
        &self.0.decoded
    }

    async fn wait(&self, check: impl Fn(&State) -> Option<Waited>) -> Waited {
        loop {
            let changed = self.next_change();
            let outcome = check(&self.0.state.read().expect("no holder of this lock panics"));
            if let Some(outcome) = outcome {
                return outcome;
            }
            changed.await;
        }
    }

    /// Writes into a copy that shares all that does not change, and publishes that: readers go on meanwhile.
    fn write_aside(&self, change: impl FnOnce(&mut Writer, &mut State)) {
        let mut writer = self.0.writer.lock().expect("no holder of this lock panics");
        let mut next = self.0.state.read().expect("no holder of this lock panics").clone();
        let state = Arc::make_mut(&mut next);
        change(&mut writer, state);
        state.writes += 1;
        let old = std::mem::replace(&mut *self.0.state.write().expect("no holder of this lock panics"), next);
        drop(writer);
        drop(old);
        self.0.published.notify_waiters();
    }

    /// Writes in place: readers wait, so this is for little.
    fn write<T>(&self, change: impl FnOnce(&mut Writer, &mut State) -> T) -> T {
        let mut writer = self.0.writer.lock().expect("no holder of this lock panics");
        let mut state = self.0.state.write().expect("no holder of this lock panics");
        // Copies the roots, not the trees, and only when a snapshot of the present state is held by someone.
        let next = Arc::make_mut(&mut state);
        let result = change(&mut writer, next);
        next.writes += 1;
        drop(state);
        self.0.published.notify_waiters();
        result
    }
}

struct Change<'a> {
    store: &'a Shared,
    writer: &'a mut Writer,
    state: &'a mut State,
    events: &'a mut Vec<Event>,
}

impl Change<'_> {
    fn apply(&mut self, scope: &Scope, delta: Delta) {
        let revision = delta.revision();
        match delta {
            Delta::Added(object) | Delta::Updated(object) => self.upsert(object),
            Delta::Deleted(object) => self.delete(object),
            Delta::Bookmark { .. } => self.writer.forget_deletions_until(revision),
            Delta::Replaced { revision, objects } => return self.replace(scope, revision, objects),
            Delta::Sync => return self.sync(scope),
        }
        let progress = self.state.scopes.entry(scope);
        progress.revision = progress.revision.max(revision);
    }

    fn upsert(&mut self, object: Object) {
        let known = self.state.objects.get(object.key());
        let seen = known.map(Object::revision).or_else(|| self.writer.deleted.get(object.key()).copied());
        // Revision zero means that the server's resourceVersion is no number: then order of arrival decides.
        if seen.is_some_and(|seen| object.revision() != 0 && object.revision() <= seen) {
            self.store.stale_events.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.put(object, false);
    }

    fn delete(&mut self, object: Object) {
        let known = self.state.objects.get(object.key());
        if known.is_some_and(|known| object.revision() != 0 && object.revision() < known.revision()) {
            self.store.stale_events.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.writer.remember_deletion(object.key(), object.revision());
        if let Some(known) = self.take(object.key()) {
            // The deletion may be the first word of a successor that was never seen; what the handlers knew is gone.
            let final_state_unknown = known.uid() != object.uid();
            let object = if final_state_unknown { known } else { object };
            self.events.push(Event::Delete { object, final_state_unknown });
        }
    }

    fn replace(&mut self, scope: &Scope, revision: Revision, objects: Vec<Object>) {
        let progress = self.state.scopes.entry(scope);
        let first = !progress.synced;
        let reset = progress.synced && revision < progress.revision;
        *progress =
            Progress { revision, synced: true, epoch: progress.epoch + u64::from(reset), ..*progress };
        let mut listed: Vec<&Key> = objects.iter().map(Object::key).collect();
        listed.sort_unstable();
        self.retain(scope, |key| listed.binary_search(&key).is_ok());
        drop(listed);
        for object in objects.into_iter().filter(|object| scope.covers(object.namespace())) {
            // A server that went back gives the same revisions anew, to other states.
            let unchanged =
                self.state.objects.get(object.key()).is_some_and(|known| {
                    known.same_state(&object) && (!reset || known.same_content(&object))
                });
            if !unchanged {
                self.put(object, first);
            }
        }
        self.writer.clear();
    }

    /// Tells each object of `scope` again.
    fn sync(&mut self, scope: &Scope) {
        let again = |object: &Object| Event::Update { old: object.clone(), new: object.clone() };
        self.events.extend(within(self.state, scope).map(again));
    }

    /// Deletes what `keep` refuses within `scope`.
    fn retain(&mut self, scope: &Scope, keep: impl Fn(&Key) -> bool) {
        let own = within(self.state, scope).map(Object::key);
        let gone: Vec<Key> = own.filter(|key| !keep(key)).cloned().collect();
        for key in gone {
            if let Some(object) = self.take(&key) {
                self.events.push(Event::Delete { object, final_state_unknown: true });
            }
        }
    }

    fn put(&mut self, object: Object, is_initial: bool) {
        self.store.bytes.fetch_add(object.heap_bytes() as u64, Ordering::Relaxed);
        let old = self.state.objects.insert(object.key().clone(), object.clone());
        for index in &mut self.state.indexes {
            index.change(old.as_ref(), Some(&object));
        }
        let Some(old) = old else {
            self.events.push(Event::Add { object, is_initial });
            return;
        };
        self.forget(&old);
        if old.uid() == object.uid() {
            self.events.push(Event::Update { old, new: object });
        } else {
            self.events.push(Event::Delete { object: old, final_state_unknown: true });
            self.events.push(Event::Add { object, is_initial: false });
        }
    }

    fn take(&mut self, key: &Key) -> Option<Object> {
        let object = self.state.objects.remove(key)?;
        for index in &mut self.state.indexes {
            index.change(Some(&object), None);
        }
        self.forget(&object);
        Some(object)
    }

    fn forget(&self, object: &Object) {
        self.store.bytes.fetch_sub(object.heap_bytes() as u64, Ordering::Relaxed);
        self.store.decoded.forget(object);
    }
}

fn within<'a>(state: &'a State, scope: &Scope) -> impl Iterator<Item = &'a Object> + use<'a> {
    let prefix = match scope {
        Scope::All => String::new(),
        Scope::Namespace(name) => format!("{name}/"),
    };
    let range = state.objects.range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded));
    range.map(|(_, object)| object).take_while(move |object| object.key().as_str().starts_with(&prefix))
}

impl Writer {
    fn remember_deletion(&mut self, key: &Key, revision: Revision) {
        if revision == 0 {
            return;
        }
        self.deleted.insert(key.clone(), revision);
        self.deletion_order.push_back((key.clone(), revision));
        while self.deletion_order.len() > REMEMBERED_DELETIONS {
            self.forget_oldest_deletion();
        }
    }

    fn forget_deletions_until(&mut self, revision: Revision) {
        while self.deletion_order.front().is_some_and(|(_, deleted)| *deleted <= revision) {
            self.forget_oldest_deletion();
        }
    }

    fn forget_oldest_deletion(&mut self) {
        if let Some((key, revision)) = self.deletion_order.pop_front()
            && self.deleted.get(&key) == Some(&revision)
        {
            self.deleted.remove(&key);
        }
    }

    fn clear(&mut self) {
        self.deleted.clear();
        self.deletion_order.clear();
    }
}
