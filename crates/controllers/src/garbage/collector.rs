//! State shared by monitors and workers, and the workers: take an object, decide on it, carry out the decision.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;
use setpoint::queue::{Priority, Reason, Trigger};
use setpoint::queue::{QueueOptions, SourceName, WorkQueue};
use setpoint::recorder::EventType;
use setpoint::{Client, ClientError, Key, Recorder};

use super::write;
use super::{
    AbsentOwners, FOREGROUND, Graph, Identity, ORPHAN, Object, Owner, Presence, Uid, Verdict, Work, evaluate,
};
use crate::discovery::ServerResource;

/// Number of dependents that are orphaned in parallel.
const ORPHAN_CONCURRENCY: usize = 20;

/// The collector's shared state.
pub(super) struct Collector {
    pub(super) client: Client,
    pub(super) recorder: Recorder,
    pub(super) queue: WorkQueue<Work>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    graph: Graph,
    absent: AbsentOwners,
    /// The server's resources, by group and kind.
    resources: BTreeMap<(String, String), Arc<ServerResource>>,
}

/// The reason why an object could not be processed yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum CollectError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the server has no kind {kind} in {api_version}")]
    UnknownKind { api_version: String, kind: String },
    #[error("{0} of {1} dependents could not be released: {2}")]
    Orphan(usize, usize, ClientError),
    #[error("no watch has shown the owner {0} yet")]
    Unobserved(Uid),
}

impl Collector {
    pub(super) fn new(client: Client, recorder: Recorder) -> Self {
        let queue = WorkQueue::new("garbage-collector", QueueOptions::default());
        Collector { client, recorder, queue, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder of this lock panics")
    }

    /// Replaces the known kinds of the server.
    pub(super) fn set_resources(&self, resources: impl Iterator<Item = Arc<ServerResource>>) {
        let name =
            |resource: &ServerResource| (resource.resource.group.clone(), resource.resource.kind.clone());
        self.known().resources = resources.map(|resource| (name(&resource), resource)).collect();
    }

    /// Records the present state of an object.
    pub(super) fn observe(&self, object: Object) {
        let work = self.known().graph.observe(object);
        self.enqueue(work);
    }

    /// Records that an object is gone.
    pub(super) fn vanish(&self, uid: &str) {
        let work = {
            let mut known = self.known();
            let Some(identity) = known.graph.get(uid).map(|object| object.identity.clone()) else { return };
            let has_dependents = known.graph.dependents(uid).next().is_some();
            if has_dependents {
                known.absent.insert_gone(&identity);
            }
            known.graph.vanish(uid)
        };
        self.enqueue(work);
    }

    /// Records that a kind is gone, together with its objects.
    pub(super) fn vanish_kind(&self, api_version: &str, kind: &str) {
        let uids = self.known().graph.of_kind(api_version, kind);
        uids.iter().for_each(|uid| self.vanish(uid));
    }

    fn enqueue(&self, work: impl IntoIterator<Item = Work>) {
        for work in work {
            self.queue.add(work);
        }
    }

    /// Works until the queue is shut down.
    pub(super) async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.get().await {
            let done = match item.key() {
                // Boxed, so that an idle worker holds no space for them.
                Work::Delete(uid) => Box::pin(self.attempt_to_delete(uid)).await,
                Work::Orphan(uid) => Box::pin(self.attempt_to_orphan(uid)).await,
            };
            match done {
                Ok(()) => self.queue.forget(item.key()),
                Err(error) => {
                    tracing::debug!(work = ?item.key(), %error, "could not process the object; retrying");
                    let reason = Reason::new(SourceName::named("garbage"), Trigger::Error);
                    self.queue.add_rate_limited(item.key(), Priority::DEFAULT, reason);
                }
            }
        }
    }

    async fn attempt_to_delete(&self, uid: &Uid) -> Result<(), CollectError> {
        let mut found = BTreeMap::new();
        loop {
            let (verdict, object) = self.evaluate(uid, &found);
            let Some(object) = object else { return Ok(()) };
            match verdict {
                Verdict::Nothing => return self.all_observed(&found),
                Verdict::Verify(owners) => {
                    for owner in owners {
                        let presence = self.look_for(&object, &owner).await?;
                        found.insert(owner, presence);
                    }
                }
                verdict => return self.carry_out(&object, verdict).await,
            }
        }
    }

    /// Checks that the graph has the owners that the server has. kube-controller-manager looks again and again, too: an
    /// owner that comes and goes while a watch is interrupted is never observed, and nothing would tell of its end
    /// (kubernetes#56121).
    fn all_observed(&self, found: &BTreeMap<Owner, Presence>) -> Result<(), CollectError> {
        let known = self.known();
        let exists = |presence: &Presence| matches!(presence, Presence::Present | Presence::Waiting);
        let unobserved =
            found.iter().find(|(owner, presence)| exists(presence) && known.graph.get(&owner.uid).is_none());
        unobserved.map_or(Ok(()), |(owner, _)| Err(CollectError::Unobserved(owner.uid.clone())))
    }

    fn evaluate(&self, uid: &Uid, found: &BTreeMap<Owner, Presence>) -> (Verdict, Option<Object>) {
        let known = self.known();
        let verdict = evaluate(&known.graph, uid, |object, owner| match found.get(owner) {
            Some(presence) => *presence,
            None if known.absent.contains(owner, object.identity.namespace.as_deref()) => Presence::Absent,
            None => Presence::Unknown,
        });
        (verdict, known.graph.get(uid).cloned())
    }

    async fn carry_out(&self, object: &Object, verdict: Verdict) -> Result<(), CollectError> {
        let resource = self.resource(&object.identity.api_version, &object.identity.kind)?;
        let done = match verdict {
            Verdict::Nothing | Verdict::Verify(_) => Ok(()),
            Verdict::RemoveForegroundFinalizer => {
                write::remove_finalizer(&self.client, &resource, object, FOREGROUND).await
            }
            Verdict::LookAt(uids) => {
                self.enqueue(uids.into_iter().map(Work::Delete));
                Ok(())
            }
            Verdict::DropReferences(uids) => {
                write::drop_references(&self.client, &resource, &object.identity, &uids).await
            }
            Verdict::Delete { policy, unblock } => {
                if unblock {
                    write::unblock_references(&self.client, &resource, object).await?;
                }
                write::delete(&self.client, &resource, object, policy).await
            }
        };
        match done {
            // Gone already; the graph hears of it by its own way, unless it never was there.
            Err(error) if error.is_not_found() => {
                self.vanish(&object.identity.uid);
                Ok(())
            }
            done => Ok(done?),
        }
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Arc<ServerResource>, CollectError> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let found = self.known().resources.get(&(group.to_owned(), kind.to_owned())).cloned();
        found.ok_or_else(|| CollectError::UnknownKind { api_version: api_version.into(), kind: kind.into() })
    }

    /// Asks the server for an owner that the graph does not have where the reference points.
    async fn look_for(&self, object: &Object, owner: &Owner) -> Result<Presence, CollectError> {
        let resource = self.resource(&owner.api_version, &owner.kind)?;
        let namespace = object.identity.namespace.as_deref().filter(|_| resource.namespaced);
        if resource.namespaced && namespace.is_none() {
            self.warn_of_wrong_scope(&object.identity, owner);
            return Ok(Presence::WrongScope);
        }
        let key = Key::new(namespace, &owner.name);
        let found = self.client.live().get_value(&resource.resource, key).await?;
        let presence = found.as_ref().map_or(Presence::Absent, |found| presence_of(found, &owner.uid));
        if presence == Presence::Absent {
            self.known().absent.insert(owner, namespace);
            let elsewhere = self.known().graph.get(&owner.uid).is_some();
            if elsewhere {
                self.warn_of_wrong_scope(&object.identity, owner);
            }
        }
        Ok(presence)
    }

    fn warn_of_wrong_scope(&self, identity: &Identity, owner: &Owner) {
        let namespace = identity.namespace.as_deref().unwrap_or_default();
        let Owner { api_version, kind, name, uid, .. } = owner;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in \
             namespace {namespace:?}"
        );
        let regarding = ObjectReference {
            api_version: Some(identity.api_version.to_string()),
            kind: Some(identity.kind.to_string()),
            name: Some(identity.name.to_string()),
            namespace: identity.namespace.as_ref().map(|namespace| namespace.to_string()),
            uid: Some(identity.uid.to_string()),
            ..Default::default()
        };
        let reason = "OwnerRefInvalidNamespace";
        self.recorder.publish(EventType::Warning, regarding, None, reason, reason, message);
    }

    async fn attempt_to_orphan(&self, uid: &Uid) -> Result<(), CollectError> {
        let (owner, dependents) = {
            let known = self.known();
            let Some(owner) = known.graph.get(uid).filter(|owner| owner.orphans_dependents()).cloned() else {
                return Ok(());
            };
            let dependents: Vec<Identity> =
                known.graph.dependents(uid).map(|dependent| dependent.identity.clone()).collect();
            (owner, dependents)
        };
        let count = dependents.len();
        let released = stream::iter(dependents).map(|dependent| async move {
            let resource = self.resource(&dependent.api_version, &dependent.kind)?;
            let owners = std::slice::from_ref(uid);
            match write::drop_references(&self.client, &resource, &dependent, owners).await {
                Err(error) if !error.is_not_found() => Err(CollectError::from(error)),
                _ => Ok(()),
            }
        });
        let results: Vec<_> = released.buffer_unordered(ORPHAN_CONCURRENCY).collect().await;
        let mut failures: Vec<CollectError> = results.into_iter().filter_map(Result::err).collect();
        let failed = failures.len();
        match failures.pop() {
            Some(CollectError::Client(error)) => return Err(CollectError::Orphan(failed, count, error)),
            Some(error) => return Err(error),
            None => {}
        }
        let resource = self.resource(&owner.identity.api_version, &owner.identity.kind)?;
        match write::remove_finalizer(&self.client, &resource, &owner, ORPHAN).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Reads from the server's answer whether the owner with this uid exists.
fn presence_of(found: &Value, uid: &str) -> Presence {
    let metadata = &found["metadata"];
    if metadata["uid"].as_str() != Some(uid) {
        return Presence::Absent;
    }
    let finalizers = metadata["finalizers"].as_array();
    let foreground = finalizers.is_some_and(|list| list.iter().any(|finalizer| finalizer == FOREGROUND));
    if metadata["deletionTimestamp"].is_string() && foreground {
        Presence::Waiting
    } else {
        Presence::Present
    }
}
