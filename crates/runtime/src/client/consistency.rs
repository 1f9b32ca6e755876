//! Read your own writes: what this process wrote and which caches have not seen it yet.
//!
//! After every successful write of our client the answer's resourceVersion (or, for a deletion, the uid) is noted
//! for each informer that surely sees it. A read waits for what was written under its key (a list: for what was
//! written of its kind in its namespace); a reconcile waits, before it starts, for what its predecessor wrote and for
//! whatever this process wrote to its object. A wait is bounded; after one that ended in vain nothing waits for that
//! write again.
//!
//! Never waited for: answers without a resourceVersion or with one that is no number, dry runs, and writes that an
//! informer cannot be sure to see (other namespace, other labels, fields other than the name) to objects that it lacks.
//! One that it has it sees change, or leave because it is not what it looks for any more. A write that changed nothing
//! has the resourceVersion of a state that the cache has seen or is about to see. A write that takes the last
//! finalizer off an object that is to go ends it: its uid is waited for, as after a deletion. What is deleted before a
//! cache had it is waited for by the revision that the deletion named; if it named none, it is waited for once it comes.
//!
//! A write that was given up stays noted until the cache shows it: whoever compares with that cache, as an apply does that
//! would be skipped, has to know that it is behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::core::ApiResource;
use tokio::time::Instant;

use super::caches::{Caches, Declared};
use super::doomed::Doomed;
use super::expected::{Coming, Expected};
use super::written::{Written, WrittenList, WrittenMeta};
use crate::cache::{Snapshot, Uid};
use crate::clock;
use crate::informer::{SharedInformer, WeakInformer};
use crate::key::Key;
use crate::metrics::ClientMetrics;
use crate::revision::{Revision, parse_revision};

/// How long a read or a reconcile waits for an own write, unless the manager says otherwise.
pub const CONSISTENCY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many writes are remembered that a cache has not seen. Beyond it those of the first informer and key are dropped.
const MAX_PENDING: usize = 65_536;
/// When this many are pending, those that were seen meanwhile are swept out.
const SWEEP: usize = 1024;

/// One write that one informer will see. It does not keep the informer: of one that has ended nothing is expected.
#[derive(Clone)]
pub(crate) struct Pending {
    number: usize,
    informer: WeakInformer,
    key: Key,
    expected: Expected,
    /// Nobody waits for it any more.
    given_up: bool,
}

impl Pending {
    fn new(declared: &Declared, key: &Key, expected: Expected) -> Self {
        let informer = declared.informer.downgrade();
        Pending { number: declared.number, informer, key: key.clone(), expected, given_up: false }
    }

    pub(crate) fn fulfilled(&self) -> bool {
        let informer = self.informer.upgrade();
        informer.is_none_or(|informer| self.fulfilled_in(&informer.store().snapshot()))
    }

    pub(super) fn fulfilled_in(&self, state: &Snapshot) -> bool {
        self.expected.fulfilled(state, &self.key)
    }

    /// Whether what is true now may cease to be so without another write.
    pub(super) fn may_come(&self) -> bool {
        self.expected.may_come()
    }

    /// Whether it has not come true, or need not stay so.
    fn counts(&self) -> bool {
        self.may_come() || !self.fulfilled()
    }

    pub(super) fn is_of(&self, key: &Key) -> bool {
        self.key == *key
    }

    /// Whether it is in `namespace`, or that is none.
    pub(super) fn is_within(&self, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|namespace| self.key.namespace() == Some(namespace))
    }

    pub(super) fn was_given_up(&self) -> bool {
        self.given_up
    }
}

/// All writes of the process that are not seen everywhere.
#[derive(Clone)]
pub(crate) struct Writes {
    pending: Arc<Mutex<Noted>>,
    caches: Caches,
    metrics: Arc<ClientMetrics>,
    timeout: Duration,
}

/// By the informer's number and the key.
type Noted = BTreeMap<(usize, Key), Pending>;

impl Writes {
    pub(crate) fn new(caches: Caches, metrics: Arc<ClientMetrics>, timeout: Duration) -> Self {
        Writes { pending: Arc::default(), caches, metrics, timeout }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.pending.lock().expect("no holder of this lock panics")
    }

    /// Notes a write by its answer; says what is to be waited for.
    pub(super) fn wrote(&self, resource: &ApiResource, answer: &[u8]) -> Vec<Pending> {
        let Some(written) = Written::read(answer) else { return Vec::new() };
        // A Scale bears the name, uid and version of the object that it is of; what another answer bears is another's.
        let scale = written.kind == "Scale";
        if (written.kind != resource.kind && !scale) || written.metadata.name.is_empty() {
            return Vec::new();
        }
        let Some(revision) = parse_revision(&written.metadata.resource_version) else { return Vec::new() };
        let key = Key::new(written.metadata.namespace.as_deref(), &written.metadata.name);
        let ended = written.was_last();
        let WrittenMeta { uid, labels, .. } = written.metadata;
        let (uid, labels) = (Uid::new(&uid), labels.unwrap_or_default());
        let seen_by = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            let store = declared.informer.store();
            let epoch = declared.epoch(key.namespace())?;
            // A Scale does not bear the labels of its object.
            let unknown = scale && declared.informer.target().labels.is_some();
            if unknown || !declared.surely_sees(&key, &labels) {
                let cached = store.get(key.as_str()).filter(|cached| *cached.uid() == uid);
                // What the cache has, or is about to have, it sees change or leave, whatever it selects by.
                let unseen = || self.unseen_at(&declared, &key).filter(|(own, _)| *own == uid);
                let cached = cached.map(|cached| cached.revision());
                let (state, uid) = (cached.or_else(|| Some(unseen()?.1))?, uid.clone());
                let expected = match ended {
                    // Only what the cache is sure to reach: the rest may have been done where it does not look.
                    true => Expected::Gone { uid, written: state, epoch },
                    false if state < revision => Expected::Left { uid, state, written: revision, epoch },
                    false => return None,
                };
                return Some(Pending::new(&declared, &key, expected));
            }
            let expected = match ended {
                true => Expected::Gone { uid: uid.clone(), written: revision, epoch },
                false => Expected::Seen { uid: uid.clone(), revision, epoch },
            };
            Some(Pending::new(&declared, &key, expected))
        });
        let pending = seen_by.filter(|pending| !pending.fulfilled()).collect();
        self.note(pending)
    }

    /// Which object each cache has under `key`.
    pub(super) fn cached(&self, resource: &ApiResource, key: &Key) -> Vec<(usize, Uid)> {
        let declared = self.caches.of_kind(resource).into_iter();
        let cached = declared.filter_map(|declared| {
            Some((declared.number, declared.informer.store().get(key.as_str())?.uid().clone()))
        });
        cached.collect()
    }

    /// Notes a deletion by its answer.
    pub(super) fn deleted(&self, resource: &ApiResource, doomed: &Doomed, answer: &[u8]) -> Vec<Pending> {
        let written = Written::read(answer).unwrap_or_default();
        if written.kind != "Status" && written.remains() {
            return self.wrote(resource, answer);
        }
        let key = &doomed.key;
        let doomed = doomed.as_answered(written);
        let gone_from = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            let store = declared.informer.store();
            let epoch = declared.epoch(key.namespace())?;
            let gone = |uid, written| Expected::Gone { uid, written, epoch };
            let expected = match (store.get(key.as_str()), &doomed.uid) {
                (Some(cached), uid) if uid.as_ref().is_none_or(|uid| cached.uid() == uid) => {
                    gone(cached.uid().clone(), 0)
                }
                (_, Some(uid)) => match (self.unseen_at(&declared, key), doomed.cached_in(&declared)) {
                    (Some((own, written)), _) if own == *uid => gone(own, written),
                    (_, Some(cached)) if cached == uid => gone(cached.clone(), 0),
                    (other, predecessor) if doomed.is_seen_by(&declared) => match doomed.revision {
                        Some(revision) => gone(uid.clone(), revision),
                        None => Expected::Absent {
                            uid: uid.clone(),
                            written: other.map_or(0, |(_, written)| written),
                            epoch,
                            coming: Box::new(Coming {
                                others: predecessor.cloned().into_iter().collect(),
                                until: clock::after(Instant::now(), self.timeout),
                            }),
                        },
                    },
                    // The one that went had taken the place of what the cache had.
                    (_, predecessor) => gone(predecessor?.clone(), 0),
                },
                _ => return None,
            };
            Some(Pending::new(&declared, key, expected))
        });
        let pending = gone_from.collect();
        self.note(pending)
    }

    /// Notes the deletion of several by its answer, which lists them as they were before: each will be gone, or in
    /// another state because something holds it back. `at_once`: without a grace period.
    pub(super) fn deleted_collection(
        &self,
        resource: &ApiResource,
        answer: &[u8],
        at_once: bool,
    ) -> Vec<Pending> {
        let list = serde_json::from_slice::<WrittenList>(answer).unwrap_or_default();
        let mut pending = Vec::new();
        for Written { metadata, .. } in list.items {
            // One that was on its way out already may stay as it is.
            let stays = metadata.deletion_timestamp.is_some() && (!at_once || metadata.has_finalizers());
            let Some(state) = parse_revision(&metadata.resource_version).filter(|_| !stays) else { continue };
            let key = Key::new(metadata.namespace.as_deref(), &metadata.name);
            let labels = metadata.labels.unwrap_or_default();
            let uid = Uid::new(&metadata.uid);
            for declared in self.caches.of_kind(resource) {
                let store = declared.informer.store();
                let sees = declared.surely_sees(&key, &labels)
                    || store.get(key.as_str()).is_some_and(|cached| *cached.uid() == uid);
                let Some(epoch) = declared.epoch(key.namespace()).filter(|_| sees) else { continue };
                let uid = uid.clone();
                let expected = Expected::Ending { uid, state, written: state + 1, epoch };
                pending.push(Pending::new(&declared, &key, expected));
            }
        }
        pending.retain(|pending| !pending.fulfilled());
        self.note(pending)
    }

    /// The object that this process wrote under `key` and the cache has not seen, and the revision of that write.
    fn unseen_at(&self, declared: &Declared, key: &Key) -> Option<(Uid, Revision)> {
        let noted = self.lock().get(&(declared.number, key.clone()))?.clone();
        let revision = match noted.expected {
            _ if noted.fulfilled() => return None,
            Expected::Seen { revision, .. } => revision,
            Expected::Left { state, .. } | Expected::Ending { state, .. } => state,
            Expected::Gone { .. } | Expected::Absent { .. } => return None,
        };
        Some((noted.expected.uid().clone(), revision))
    }

    /// Gives them back as they are to be waited for.
    fn note(&self, mut fresh: Vec<Pending>) -> Vec<Pending> {
        if fresh.is_empty() {
            return fresh;
        }
        let mut pending = self.lock();
        if pending.len() >= SWEEP && pending.len().is_power_of_two() {
            pending.retain(|_, pending| pending.counts());
        }
        for write in &mut fresh {
            let place = (write.number, write.key.clone());
            if let Some(known) = pending.get(&place).filter(|known| known.counts()) {
                write.expected = write.expected.clone().after(&known.expected);
            }
            pending.insert(place, write.clone());
        }
        while pending.len() > MAX_PENDING {
            pending.pop_first();
        }
        fresh
    }

    /// What was written under `key` and perhaps not seen by the informer with this number.
    pub(crate) fn of_key(&self, informer: usize, key: &Key) -> Option<Pending> {
        let pending = self.lock();
        if pending.is_empty() {
            return None;
        }
        pending.get(&(informer, key.clone())).filter(|write| !write.given_up).cloned()
    }

    /// What was written in `namespace`, or anywhere, and perhaps not seen by the informer with this number.
    pub(super) fn of_kind(&self, informer: usize, namespace: Option<&str>) -> Vec<Pending> {
        let mut all = self.all_of(informer);
        all.retain(|write| !write.given_up && write.is_within(namespace));
        all
    }

    /// What was deleted under `key`, or in `namespace`, and may still come to the informer with this number.
    pub(super) fn coming(&self, informer: usize, key: Option<&Key>, namespace: Option<&str>) -> Vec<Pending> {
        let mut noted = match key {
            Some(key) => self.of_key(informer, key).into_iter().collect(),
            None => self.of_kind(informer, namespace),
        };
        noted.retain(Pending::may_come);
        noted
    }

    /// What was perhaps not seen by the informer with this number, waited for or not.
    pub(super) fn all_of(&self, informer: usize) -> Vec<Pending> {
        let pending = self.lock();
        let own = pending.range((informer, Key::new(None, ""))..(informer + 1, Key::new(None, "")));
        own.map(|(_, write)| write).cloned().collect()
    }

    /// Of what was noted, what the state does not show; the rest is forgotten.
    pub(super) fn lacking_in(&self, noted: Vec<Pending>, state: &Snapshot) -> Vec<Pending> {
        let (seen, lacking): (Vec<_>, Vec<_>) =
            noted.into_iter().partition(|write| write.fulfilled_in(state));
        seen.iter().for_each(|write| self.forget(write));
        lacking
    }

    /// Whether a state lacks what this process wrote under `key`, waited for or not.
    pub(super) fn lacking(&self, informer: usize, key: &Key, state: &Snapshot) -> bool {
        self.lock().get(&(informer, key.clone())).is_some_and(|write| !write.fulfilled_in(state))
    }

    /// Waits for all of them together, at most for the timeout.
    pub(crate) async fn wait(&self, pending: impl IntoIterator<Item = Pending>) {
        let begun = Instant::now();
        let mut told = false;
        let mut in_vain: Option<(Pending, SharedInformer)> = None;
        let mut count = 0;
        for write in pending {
            let Some(informer) = write.informer.upgrade() else {
                self.forget(&write);
                continue;
            };
            if self.is_given_up(&write) {
                continue;
            }
            if !write.fulfilled_in(&informer.store().snapshot()) {
                if !std::mem::replace(&mut told, true) {
                    self.metrics.stale_read_prevented(&informer.target().resource.kind);
                }
                let seen = write.expected.wait(informer.store(), &write.key);
                let left = self.timeout.saturating_sub(begun.elapsed());
                if tokio::time::timeout(left, seen).await.is_err() {
                    self.give_up(&write);
                    count += 1;
                    in_vain.get_or_insert((write, informer));
                    continue;
                }
            }
            self.forget(&write);
        }
        if let Some((write, informer)) = in_vain {
            self.waited_in_vain(&write, &informer, count);
        }
    }

    /// What `take` gives, with a state in which nothing is there of what may come and was deleted.
    pub(super) async fn taken_without(
        &self,
        coming: Vec<Pending>,
        take: impl Fn() -> (Vec<Pending>, Snapshot),
    ) -> (Vec<Pending>, Snapshot) {
        loop {
            let (noted, state) = take();
            let has_come = |write: &&Pending| {
                write.may_come() && !self.is_given_up(write) && !write.fulfilled_in(&state)
            };
            match coming.iter().find(has_come) {
                Some(write) => self.wait([write.clone()]).await,
                None => return (noted, state),
            }
        }
    }

    /// Says it once, of however many.
    fn waited_in_vain(&self, write: &Pending, informer: &SharedInformer, count: usize) {
        let kind = &informer.target().resource.kind;
        self.metrics.consistency_timeout(kind);
        let reached = informer.store().revision();
        tracing::warn!(kind, key = %write.key, expected = ?write.expected, reached, writes = count,
            "the cache did not show an own write in time; going on without it");
    }

    fn forget(&self, write: &Pending) {
        if write.may_come() {
            return;
        }
        let place = (write.number, write.key.clone());
        let mut pending = self.lock();
        // A newer write under the same key stays.
        if pending.get(&place).is_some_and(|known| known.expected == write.expected) {
            pending.remove(&place);
        }
    }

    fn is_given_up(&self, write: &Pending) -> bool {
        let pending = self.lock();
        let known = pending.get(&(write.number, write.key.clone()));
        known.is_some_and(|known| known.given_up && known.expected == write.expected)
    }

    /// Nobody waits for it again.
    fn give_up(&self, write: &Pending) {
        let mut pending = self.lock();
        let known = pending.get_mut(&(write.number, write.key.clone()));
        if let Some(known) = known.filter(|known| known.expected == write.expected) {
            known.given_up = true;
        }
    }
}
