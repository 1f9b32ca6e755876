//! The writes of the process that a cache has not shown: notes them, waits for them, forgets them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::core::ApiResource;
use tokio::time::Instant;

use super::delete_target::DeleteTarget;
use super::expected::{Coming, Expected};
use super::pending::{Before, EVERYTHING, Pending};
use super::written::{Written, WrittenList, WrittenMeta};
use crate::client::caches::{Caches, Declared};
use crate::clock;
use crate::error::ClientError;
use crate::informer::SharedInformer;
use crate::informer::{Snapshot, Uid};
use crate::key::Key;
use crate::log_target::{LogTarget, log_as};
use crate::metrics::ClientMetrics;
use crate::revision::{Revision, parse_revision};

/// How long a read or a reconcile waits for an own write, unless the manager says otherwise.
pub const CONSISTENCY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a write may be missing from a cache before its informer relists.
const RELIST_AFTER: Duration = Duration::from_secs(60);
/// How many writes are remembered that a cache has not seen. Beyond it those of the first informer become one, which a
/// relist fulfils.
const MAX_PENDING: usize = 65_536;
/// When this many are pending, those that were seen meanwhile are swept out.
const SWEEP: usize = 1024;

/// All writes of the process that are not seen everywhere.
#[derive(Clone)]
pub(crate) struct Writes {
    pending: Arc<Mutex<Noted>>,
    pub(super) caches: Caches,
    metrics: Arc<ClientMetrics>,
    timeout: Duration,
    log_target: LogTarget,
}

/// By the informer's number and the key.
type Noted = BTreeMap<(usize, Key), Pending>;

impl Writes {
    pub(crate) fn new(
        caches: Caches,
        metrics: Arc<ClientMetrics>,
        timeout: Duration,
        log_target: LogTarget,
    ) -> Self {
        Writes { pending: Arc::default(), caches, metrics, timeout, log_target }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.pending.lock().expect("no holder of this lock panics")
    }

    /// Notes a write by its answer; says what is to be waited for.
    pub(in crate::client) fn wrote(
        &self,
        resource: &ApiResource,
        before: &[Before],
        answer: &[u8],
    ) -> Vec<Pending> {
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
                // The cache sees every change of an object that it has or is about to have, whatever it selects by.
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
            let mut pending = Pending::new(&declared, &key, expected);
            let before = before.iter().find(|before| before.informer == declared.number);
            if before.is_some_and(|before| before.shows_reset(&uid, revision)) {
                pending.relist = Some(declared.informer.relist());
            }
            Some(pending)
        });
        let pending = seen_by.filter(|pending| !pending.fulfilled()).collect();
        self.note(pending)
    }

    /// How far each cache is, and what it has under `key`, before a write is sent.
    pub(in crate::client) fn before(&self, resource: &ApiResource, key: Option<&Key>) -> Vec<Before> {
        let declared = self.caches.of_kind(resource).into_iter();
        let before = declared.map(|declared| {
            let state = declared.informer.store().snapshot();
            let object = key.and_then(|key| state.get(key.as_str()));
            let object = object.map(|object| (object.uid().clone(), object.revision()));
            Before { informer: declared.number, revision: state.revision(), object }
        });
        before.collect()
    }

    /// Notes a deletion by its answer.
    pub(in crate::client) fn deleted(
        &self,
        resource: &ApiResource,
        target: &DeleteTarget,
        answer: &[u8],
    ) -> Vec<Pending> {
        let written = Written::read(answer).unwrap_or_default();
        if written.kind != "Status" && written.remains() {
            return self.wrote(resource, &target.before, answer);
        }
        let key = &target.key;
        let target = target.as_answered(written);
        let gone_from = self.caches.of_kind(resource).into_iter().filter_map(|declared| {
            let store = declared.informer.store();
            let epoch = declared.epoch(key.namespace())?;
            let gone = |uid, written| Expected::Gone { uid, written, epoch };
            let expected = match (store.get(key.as_str()), &target.uid) {
                (Some(cached), uid) if uid.as_ref().is_none_or(|uid| cached.uid() == uid) => {
                    gone(cached.uid().clone(), 0)
                }
                (_, Some(uid)) => match (self.unseen_at(&declared, key), target.cached_in(&declared)) {
                    (Some((own, written)), _) if own == *uid => gone(own, written),
                    (_, Some(cached)) if cached == uid => gone(cached.clone(), 0),
                    (other, predecessor) if target.is_seen_by(&declared) => match target.revision {
                        Some(revision) => gone(uid.clone(), revision),
                        None => Expected::Absent {
                            uid: uid.clone(),
                            written: other.map_or(0, |(_, written)| written),
                            epoch,
                            coming: Box::new(self.coming_until_relist(&declared, predecessor)),
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

    /// It may come until a relist, begun after the deletion, has shown that it is gone; that list gets a minute.
    fn coming_until_relist(&self, declared: &Declared, predecessor: Option<&Uid>) -> Coming {
        let relist = clock::after(Instant::now(), RELIST_AFTER);
        declared.informer.relist_at(relist, Revision::MAX);
        let until = clock::after(relist, RELIST_AFTER);
        Coming { others: predecessor.cloned().into_iter().collect(), until }
    }

    /// Notes the deletion of several by its answer, which lists them as they were before: each will be gone, or in
    /// another state because something holds it back. `at_once`: without a grace period.
    pub(in crate::client) fn deleted_collection(
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
    pub(super) fn note(&self, mut fresh: Vec<Pending>) -> Vec<Pending> {
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
        if pending.len() > MAX_PENDING {
            forget_by_relist(&mut pending, self.log_target);
        }
        fresh
    }

    /// The write under `key`, and the one that stands for all, that the informer with this number has perhaps not seen.
    pub(crate) fn of_key(&self, informer: usize, key: &Key) -> impl Iterator<Item = Pending> + use<> {
        let pending = self.lock();
        let noted = |key: &Key| match pending.is_empty() {
            true => None,
            false => pending.get(&(informer, key.clone())).cloned(),
        };
        noted(&EVERYTHING).into_iter().chain(noted(key))
    }

    /// The writes in `namespace`, or anywhere, that the informer with this number has perhaps not seen.
    pub(in crate::client) fn of_kind(&self, informer: usize, namespace: Option<&str>) -> Vec<Pending> {
        let mut all = self.all_of(informer);
        all.retain(|write| write.is_within(namespace));
        all
    }

    /// The deletions under `key`, or in `namespace`, whose objects may still come to the informer with this number.
    pub(in crate::client) fn coming(
        &self,
        informer: usize,
        key: Option<&Key>,
        namespace: Option<&str>,
    ) -> Vec<Pending> {
        let mut noted = match key {
            Some(key) => self.of_key(informer, key).collect(),
            None => self.of_kind(informer, namespace),
        };
        noted.retain(Pending::may_come);
        noted
    }

    /// Writes that the informer with this number has perhaps not seen.
    pub(in crate::client) fn all_of(&self, informer: usize) -> Vec<Pending> {
        let pending = self.lock();
        let own = pending.range(of_informer(informer));
        own.map(|(_, write)| write).cloned().collect()
    }

    /// The noted writes that the state does not show. The rest is forgotten.
    pub(in crate::client) fn lacking_in(&self, noted: Vec<Pending>, state: &Snapshot) -> Vec<Pending> {
        let (seen, lacking): (Vec<_>, Vec<_>) =
            noted.into_iter().partition(|write| write.fulfilled_in(state));
        seen.iter().for_each(|write| self.forget(write));
        lacking
    }

    /// Whether a state lacks what this process wrote under `key`.
    pub(in crate::client) fn lacking(&self, informer: usize, key: &Key, state: &Snapshot) -> bool {
        self.of_key(informer, key).any(|write| !write.fulfilled_in(state))
    }

    /// Waits for all of them together, at most for the timeout.
    ///
    /// # Errors
    /// When a cache does not show one of them by then.
    pub(crate) async fn wait(&self, pending: impl IntoIterator<Item = Pending>) -> Result<(), ClientError> {
        let begun = Instant::now();
        let mut warned = false;
        for write in pending {
            let Some(informer) = write.informer.upgrade() else {
                self.forget(&write);
                continue;
            };
            let Some(write) = self.in_this_epoch(write, &informer) else { continue };
            if !write.fulfilled_in(&informer.store().snapshot()) {
                if !std::mem::replace(&mut warned, true) {
                    self.metrics.stale_read_prevented(&informer.target().resource.kind);
                }
                let left = self.timeout.saturating_sub(begun.elapsed());
                // Boxed, because it is rare to wait and every future that reads would hold the space for it.
                if self.is_overdue(&write) || !Box::pin(self.sees(&write, &informer, left)).await {
                    return Err(self.stale(&write, &informer));
                }
            }
            self.forget(&write);
        }
        Ok(())
    }

    /// Whether the cache shows it in time; also by a relist, where the server goes back meanwhile.
    async fn sees(&self, write: &Pending, informer: &SharedInformer, left: Duration) -> bool {
        let seen = async {
            write.seen(informer).await;
            if let Some(write) = self.in_this_epoch(write.clone(), informer) {
                write.seen(informer).await;
                self.forget(&write);
            }
        };
        tokio::time::timeout(left, seen).await.is_ok()
    }

    /// The same write. Where the server went back since, a relist that begins now fulfils it and each other write that
    /// the informer has not shown; `None` if it was seen before that.
    fn in_this_epoch(&self, write: Pending, informer: &SharedInformer) -> Option<Pending> {
        let state = informer.store().snapshot();
        if !write.is_of_another_epoch(&state) {
            return Some(write);
        }
        let mut pending = self.lock();
        let mut others = pending.range_mut(of_informer(write.number)).map(|(_, other)| other);
        if others.any(|other| other.is_of_another_epoch(&state)) {
            let number = informer.relist();
            let kind = &informer.target().resource.kind;
            log_as!(self.log_target, warn, kind, "the server went back to an older state; listing it anew");
            for (_, other) in pending.range_mut(of_informer(write.number)) {
                if other.is_of_another_epoch(&state) {
                    other.relist = Some(number);
                }
            }
        }
        // Noted anew under its key, or one of all.
        let noted = |key: &Key| pending.get(&(write.number, key.clone()));
        noted(&write.key).or_else(|| noted(&EVERYTHING)).cloned()
    }

    /// The result of `take`, with a state that has none of the deleted objects that may come.
    pub(in crate::client) async fn taken_without(
        &self,
        coming: Vec<Pending>,
        take: impl Fn() -> (Vec<Pending>, Snapshot),
    ) -> Result<(Vec<Pending>, Snapshot), ClientError> {
        loop {
            let (noted, state) = take();
            let has_come = |write: &&Pending| {
                write.may_come() && !write.is_of_another_epoch(&state) && !write.fulfilled_in(&state)
            };
            match coming.iter().find(has_come) {
                Some(write) => self.wait([write.clone()]).await?,
                None => return Ok((noted, state)),
            }
        }
    }

    /// The refusal to go on without a write. It is logged once for each write, and counted each time; a minute after the
    /// write its informer relists.
    fn stale(&self, write: &Pending, informer: &SharedInformer) -> ClientError {
        let kind = informer.target().resource.kind.clone();
        let (key, lag, reached) = (&write.key, write.since.elapsed(), informer.store().revision());
        self.metrics.stale(&kind, lag);
        if lag >= RELIST_AFTER {
            self.see_by_relist(write, informer);
        }
        if self.mark_overdue(write) {
            informer.relist_at(clock::after(write.since, RELIST_AFTER), write.expected.sufficient());
            log_as!(self.log_target, warn, kind, %key, ?lag, expected = ?write.expected, reached,
                "the cache does not show an own write in time; refusing reads of the object until it does");
        }
        ClientError::Stale { kind, key: key.clone(), lag }
    }

    fn forget(&self, write: &Pending) {
        if write.may_come() {
            return;
        }
        let place = (write.number, write.key.clone());
        let mut pending = self.lock();
        // A newer write under the same key stays.
        let forgotten = match pending.get(&place) {
            Some(known) if known.is_same(write) => pending.remove(&place),
            _ => None,
        };
        if let Some(informer) =
            forgotten.filter(|known| known.overdue).and_then(|known| known.informer.upgrade())
        {
            self.metrics.caught_up(&informer.target().resource.kind);
        }
    }

    fn is_overdue(&self, write: &Pending) -> bool {
        let pending = self.lock();
        let known = pending.get(&(write.number, write.key.clone()));
        known.is_some_and(|known| known.overdue && known.is_same(write))
    }

    /// The next relist fulfils it, also if the server never tells of it.
    fn see_by_relist(&self, write: &Pending, informer: &SharedInformer) {
        let mut pending = self.lock();
        let known = pending.get_mut(&(write.number, write.key.clone()));
        if let Some(known) = known.filter(|known| known.is_same(write) && known.relist.is_none()) {
            known.relist = Some(informer.relist());
        }
    }

    /// Nobody waits for it again; whether that is new.
    fn mark_overdue(&self, write: &Pending) -> bool {
        let mut pending = self.lock();
        let known = pending.get_mut(&(write.number, write.key.clone()));
        known
            .filter(|known| known.is_same(write))
            .is_some_and(|known| !std::mem::replace(&mut known.overdue, true))
    }
}

/// The places of one informer's writes.
fn of_informer(informer: usize) -> Range<(usize, Key)> {
    (informer, EVERYTHING.clone())..(informer + 1, EVERYTHING.clone())
}

/// Makes the writes of the first informer one, which its next relist fulfils.
fn forget_by_relist(pending: &mut Noted, log_target: LogTarget) {
    let Some((_, first)) = pending.pop_first() else { return };
    let places: Vec<_> = pending.range(of_informer(first.number)).map(|(place, _)| place.clone()).collect();
    for place in places {
        pending.remove(&place);
    }
    if let Some(informer) = first.informer.upgrade() {
        let kind = &informer.target().resource.kind;
        log_as!(
            log_target,
            warn,
            kind,
            most = MAX_PENDING,
            "too many own writes are missing from the cache; listing it anew"
        );
        pending.insert((first.number, EVERYTHING.clone()), Pending::of_all(first.number, &informer));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::informer::Delta;
    use crate::informer::Scope;
    use crate::informer::Target;
    use crate::informer::{FactoryOptions, InformerFactory};
    use crate::metrics::Metrics;

    #[test]
    fn more_writes_than_are_remembered_become_one_that_a_relist_fulfils() {
        let connect = Arc::new(|_: &Target, _: Option<&str>| unreachable!("it is not started"));
        let factory = InformerFactory::with_connect(connect, FactoryOptions::default());
        let (caches, metrics) = (Caches::default(), Arc::new(Metrics::default().client()));
        let declared = caches.declare(factory.informer(Target::of::<ConfigMap>()), false);
        let writes = Writes::new(caches, metrics, CONSISTENCY_TIMEOUT, LogTarget::default());
        let store = declared.informer.store();
        store.apply(&Scope::All, Delta::Replaced { revision: 1, objects: vec![] });
        let unseen = |name: usize| {
            let expected = Expected::Seen { uid: Uid::new("u"), revision: 9, epoch: 0 };
            Pending::new(&declared, &Key::new(Some("n"), &name.to_string()), expected)
        };
        writes.note((0..=MAX_PENDING).map(unseen).collect());
        let key = Key::new(Some("n"), "0");
        let lacks = || writes.lacking(declared.number, &key, &store.snapshot());
        assert_eq!((writes.all_of(declared.number).len(), lacks()), (1, true));
        store.apply(&Scope::All, Delta::Replaced { revision: 9, objects: vec![] });
        assert!(lacks(), "a list that was asked for before");
        store.note_relist(&Scope::All, 1);
        assert!(!lacks());
    }
}
