//! Read your own writes: what this process wrote and which caches have not seen it yet.
//!
//! After every successful write of our client the answer's resourceVersion (or, for a deletion, the uid) is noted
//! for each informer that surely sees it. A read waits for what was written under its key (a list: for what was
//! written of its kind in its namespace); a reconcile waits, before it starts, for what its predecessor wrote.
//! A wait is bounded; when it ends in vain the note is dropped, so nothing waits twice for it.
//!
//! Never waited for: answers without a resourceVersion or with one that is no number, dry runs, and writes that an
//! informer cannot be sure to see (other namespace, other labels, a field selector). A write that changed nothing
//! has the resourceVersion of a state that the cache has seen or is about to see. A write that takes the last
//! finalizer off an object that is to go ends it: its uid is waited for, as after a deletion.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use super::caches::{Caches, Declared};
use crate::cache::{Object, Snapshot, Store, Uid};
use crate::key::Key;
use crate::metrics::ClientMetrics;
use crate::revision::{Revision, parse_revision};

/// How long a read or a reconcile waits for an own write, unless the manager says otherwise.
pub const CONSISTENCY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many writes are remembered that a cache has not seen. Beyond it the oldest key's is dropped.
const MAX_PENDING: usize = 65_536;
/// When this many are pending, those that were seen meanwhile are swept out.
const SWEEP: usize = 1024;

/// What must come true in a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Seen {
        revision: Revision,
        epoch: u64,
    },
    /// Gone, and not merely not come yet: the cache has reached the revision that the object was written at.
    Gone {
        uid: Uid,
        written: Revision,
        epoch: u64,
    },
    /// Gone, or in another state than this: its deletion began.
    Left {
        uid: Uid,
        state: Revision,
        epoch: u64,
    },
}

impl Expected {
    /// Whether it has come true in a state, or never will because the server started over.
    fn fulfilled(&self, state: &Snapshot, key: &Key) -> bool {
        match self {
            Expected::Seen { revision, epoch } => match state.progress(key.namespace()) {
                Some(progress) => {
                    progress.epoch != *epoch || (progress.synced && progress.revision >= *revision)
                }
                None => true,
            },
            Expected::Gone { uid, written, epoch } => {
                let came = Expected::Seen { revision: *written, epoch: *epoch };
                came.fulfilled(state, key) && state.get(key.as_str()).is_none_or(|object| object.uid() != uid)
            }
            Expected::Left { uid, state: left, epoch } => {
                let came = Expected::Seen { revision: *left, epoch: *epoch };
                let there = |object: &Object| object.uid() == uid && object.revision() <= *left;
                came.fulfilled(state, key) && !state.get(key.as_str()).is_some_and(|object| there(&object))
            }
        }
    }

    /// Waits for it, without a deadline of its own.
    async fn wait(&self, store: &Store, key: &Key) {
        loop {
            let changed = store.next_change();
            if self.fulfilled(&store.snapshot(), key) {
                return;
            }
            changed.await;
        }
    }
}

/// One write that one informer will see.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) declared: Declared,
    pub(crate) key: Key,
    pub(crate) expected: Expected,
}

impl Pending {
    pub(crate) fn fulfilled(&self) -> bool {
        self.fulfilled_in(&self.declared.informer.store().snapshot())
    }

    pub(super) fn fulfilled_in(&self, state: &Snapshot) -> bool {
        self.expected.fulfilled(state, &self.key)
    }
}

/// All writes of the process that are not seen everywhere.
#[derive(Clone)]
pub(crate) struct Writes {
    pending: Arc<Mutex<BTreeMap<(usize, Key), Pending>>>,
    caches: Caches,
    metrics: Arc<ClientMetrics>,
    timeout: Duration,
}

/// The part of an answer that says which state was written.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Written {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: WrittenMeta,
    #[serde(default)]
    details: WrittenDetails,
    /// A namespace that finalizers of its own hold back.
    #[serde(skip)]
    namespace_held: bool,
}

/// The finalizers that only a namespace has, beside those of every object.
#[derive(Deserialize)]
struct WrittenNamespace {
    spec: NamespaceFinalizers,
}

#[derive(Deserialize)]
struct NamespaceFinalizers {
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMeta {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default)]
    deletion_grace_period_seconds: Option<i64>,
}

/// The objects that a deletion of several found.
#[derive(Debug, Default, Deserialize)]
struct WrittenList {
    #[serde(default)]
    items: Vec<Written>,
}

#[derive(Debug, Default, Deserialize)]
struct WrittenDetails {
    #[serde(default)]
    uid: String,
}

impl Written {
    fn read(answer: &[u8]) -> Option<Written> {
        let mut written: Written = serde_json::from_slice(answer).ok()?;
        if written.kind == "Namespace" {
            let namespace = serde_json::from_slice::<WrittenNamespace>(answer);
            written.namespace_held = namespace.is_ok_and(|namespace| !namespace.spec.finalizers.is_empty());
        }
        Some(written)
    }

    /// Whether a deletion left the object there: it waits for finalizers or a grace period.
    fn remains(&self) -> bool {
        let metadata = &self.metadata;
        metadata.deletion_timestamp.is_some()
            && (self.namespace_held
                || metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
                || metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0))
    }

    /// Whether the write took away the last thing that the object's deletion waited for. The server answers with the
    /// state before, at its old revision: only the object's end shows that the write was seen.
    fn was_last(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && !self.remains()
    }
}

impl Writes {
    pub(crate) fn new(caches: Caches, metrics: Arc<ClientMetrics>, timeout: Duration) -> Self {
        Writes { pending: Arc::default(), caches, metrics, timeout }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(usize, Key), Pending>> {
        self.pending.lock().expect("no holder of this lock panics")
    }

    /// Notes a write by its answer; says for which caches it counts.
    pub(crate) fn wrote(&self, resource: &kube::core::ApiResource, answer: &[u8]) -> Vec<Pending> {
        let Some(written) = Written::read(answer) else { return Vec::new() };
        if written.kind == "Status" || written.metadata.name.is_empty() {
            return Vec::new();
        }
        let Some(revision) = parse_revision(&written.metadata.resource_version) else { return Vec::new() };
        let key = Key::new(written.metadata.namespace.as_deref(), &written.metadata.name);
        let ended = written.was_last();
        let WrittenMeta { uid, labels, .. } = written.metadata;
        let labels = labels.unwrap_or_default();
        let seen_by = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            let store = declared.informer.store();
            let sees = declared.informer.target().surely_sees(key.namespace(), &labels);
            let epoch = store.progress(key.namespace()).filter(|_| sees)?.epoch;
            let expected = if ended {
                Expected::Gone { uid: Uid::new(&uid), written: revision, epoch }
            } else {
                Expected::Seen { revision, epoch }
            };
            Some(Pending { expected, key: key.clone(), declared })
        });
        let pending: Vec<Pending> = seen_by.filter(|pending| !pending.fulfilled()).collect();
        self.note(&pending);
        pending
    }

    /// Notes a deletion by its answer.
    pub(crate) fn deleted(
        &self,
        resource: &kube::core::ApiResource,
        key: &Key,
        answer: &[u8],
    ) -> Vec<Pending> {
        let written = Written::read(answer).unwrap_or_default();
        if written.kind != "Status" && written.remains() {
            return self.wrote(resource, answer);
        }
        let uid = [&written.metadata.uid, &written.details.uid].into_iter().find(|uid| !uid.is_empty());
        let gone_from = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            // Only a cache that has the object, or is about to have it, will see it go.
            let store = declared.informer.store();
            let (uid, written) = match (store.get(key.as_str()), uid) {
                (Some(cached), uid) if uid.is_none_or(|uid| *cached.uid() == Uid::new(uid)) => {
                    (cached.uid().clone(), 0)
                }
                (_, Some(uid)) => (Uid::new(uid), self.written_at(&declared, key)?),
                _ => return None,
            };
            let epoch = store.progress(key.namespace())?.epoch;
            let expected = Expected::Gone { uid, written, epoch };
            Some(Pending { expected, key: key.clone(), declared })
        });
        let pending: Vec<Pending> = gone_from.collect();
        self.note(&pending);
        pending
    }

    /// Notes the deletion of several by its answer, which lists them as they were before: each will be gone, or in
    /// another state because something holds it back.
    pub(crate) fn deleted_collection(
        &self,
        resource: &kube::core::ApiResource,
        answer: &[u8],
    ) -> Vec<Pending> {
        let list = serde_json::from_slice::<WrittenList>(answer).unwrap_or_default();
        let mut pending = Vec::new();
        for Written { metadata, .. } in list.items {
            // One that was on its way out already may stay as it is.
            let begun = metadata.deletion_timestamp.is_some();
            let Some(state) = parse_revision(&metadata.resource_version).filter(|_| !begun) else { continue };
            let key = Key::new(metadata.namespace.as_deref(), &metadata.name);
            let labels = metadata.labels.unwrap_or_default();
            for declared in self.caches.of_kind(resource) {
                let informer = &declared.informer;
                let progress = informer.store().progress(key.namespace());
                let sees = informer.target().surely_sees(key.namespace(), &labels);
                let Some(epoch) = progress.filter(|_| sees).map(|progress| progress.epoch) else { continue };
                let expected = Expected::Left { uid: Uid::new(&metadata.uid), state, epoch };
                pending.push(Pending { expected, key: key.clone(), declared });
            }
        }
        pending.retain(|pending| !pending.fulfilled());
        self.note(&pending);
        pending
    }

    /// The revision of an own write under `key` that the cache has not seen.
    fn written_at(&self, declared: &Declared, key: &Key) -> Option<Revision> {
        self.of_key(declared, key).into_iter().find_map(|pending| match pending.expected {
            Expected::Seen { revision, .. } => Some(revision),
            Expected::Gone { .. } | Expected::Left { .. } => None,
        })
    }

    fn note(&self, fresh: &[Pending]) {
        if fresh.is_empty() {
            return;
        }
        let mut pending = self.lock();
        if pending.len() >= SWEEP && pending.len().is_power_of_two() {
            pending.retain(|_, pending| !pending.fulfilled());
        }
        for write in fresh {
            pending.insert((write.declared.number, write.key.clone()), write.clone());
        }
        while pending.len() > MAX_PENDING {
            pending.pop_first();
        }
    }

    /// What was written under `key` and perhaps not seen.
    pub(crate) fn of_key(&self, declared: &Declared, key: &Key) -> Vec<Pending> {
        self.lock().get(&(declared.number, key.clone())).cloned().into_iter().collect()
    }

    /// What was written in `namespace`, or anywhere, and perhaps not seen.
    pub(crate) fn of_kind(&self, declared: &Declared, namespace: Option<&str>) -> Vec<Pending> {
        let pending = self.lock();
        let own =
            pending.range((declared.number, Key::new(None, ""))..(declared.number + 1, Key::new(None, "")));
        let wanted = |key: &Key| namespace.is_none_or(|namespace| key.namespace() == Some(namespace));
        own.filter(|((_, key), _)| wanted(key)).map(|(_, pending)| pending.clone()).collect()
    }

    /// Waits for all of them together, at most for the timeout.
    pub(crate) async fn wait(&self, pending: Vec<Pending>) {
        let end = Instant::now() + self.timeout;
        let mut told = false;
        for write in pending {
            if !write.fulfilled() {
                let kind = &write.declared.informer.target().resource.kind;
                if !std::mem::replace(&mut told, true) {
                    self.metrics.stale_read_prevented(kind);
                }
                let seen = write.expected.wait(write.declared.informer.store(), &write.key);
                if tokio::time::timeout_at(end, seen).await.is_err() {
                    self.metrics.consistency_timeout(kind);
                    let reached = write.declared.informer.store().revision();
                    tracing::warn!(kind, key = %write.key, expected = ?write.expected, reached,
                        "the cache did not show an own write in time; going on without it");
                }
            }
            self.forget(&write);
        }
    }

    fn forget(&self, write: &Pending) {
        let place = (write.declared.number, write.key.clone());
        let mut pending = self.lock();
        // A newer write under the same key stays.
        if pending.get(&place).is_some_and(|known| known.expected == write.expected) {
            pending.remove(&place);
        }
    }
}
