//! The thin part: read, plan, create or delete pods, tell.

use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use setpoint::recorder::EventApi;
use setpoint::{
    Action, Client, ClientError, Context, Controller, Error, Key, Manager, Reconciler, SetupError, Watch,
};

use super::{Failure, Replicated, next_status, plan, pod_from_template, slow_start};
use crate::children::adopt::{self, Owner, children, children_and_orphans};
use crate::children::claim::{Claimant, controller_of};
use crate::children::trigger::Owners;
use crate::children::write::delete_pod;
use crate::object::field::replica_set_spec;
use crate::object::pod::{is_active, is_terminating};
use crate::object::selector;

/// Number of objects of a kind that are reconciled in parallel.
const CONCURRENCY: usize = 8;

/// Registers the controller of ReplicaSets.
pub(crate) fn register_sets(manager: &Manager) -> Result<(), SetupError> {
    register::<ReplicaSet>(manager)
}

/// Registers the controller of ReplicationControllers.
pub(crate) fn register_controllers(manager: &Manager) -> Result<(), SetupError> {
    register::<ReplicationController>(manager)
}

fn register<K: Replicated>(manager: &Manager) -> Result<(), SetupError> {
    let sets = adopt::children_informer::<K>(manager);
    let pods = adopt::children_informer::<Pod>(manager);
    let owners = Owners { lister: sets.lister(), selector: K::selector };
    Controller::for_kind::<K>(manager)
        .watches(Watch::of_target(pods.target().clone()).map_changes(move |change| owners.of_child(change)))
        .named(K::CONTROLLER)
        .events(K::CONTROLLER, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(ReplicaController::<K>(PhantomData))?;
    Ok(())
}

struct ReplicaController<K>(PhantomData<K>);

impl<K: Replicated> Reconciler for ReplicaController<K> {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(object) = client.get::<K>(&key).await? else { return Ok(Action::done()) };
        let set = object.as_set();
        let spec = replica_set_spec(&set);
        if selector::check(&spec.selector).is_err() {
            return Ok(Action::done());
        }
        let namespace = key.namespace().unwrap_or_default();
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let pods = children_and_orphans::<Pod>(client, namespace, uid).await?;
        let terminating = pods.iter().filter(|pod| is_terminating(pod) && is_claimed(&set, pod)).count();
        let active: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| is_active(pod)).collect();
        let owner = Owner {
            key: key.clone(),
            claimant: Claimant {
                uid,
                deleting: set.metadata.deletion_timestamp.is_some(),
                selector: &spec.selector,
            },
            reference: object.reference(),
        };
        let active = adopt::claim::<K, Pod>(client, &owner, active).await?;
        let active: Vec<&Pod> = active.iter().map(|pod| &**pod).collect();
        let managed = manage(ctx, &*object, &set, &active).await;
        // Pods that came or went just now queue this object again: their number is written then, once.
        if matches!(managed, Ok(Managed::Changed)) {
            return Ok(Action::done());
        }
        let failure = managed.as_ref().err().map(|error| Failure { message: error.message() });
        let terminating = K::COUNTS_TERMINATING.then_some(terminating);
        let next_status = next_status(&set, &active, terminating, failure.as_ref(), ctx.now());
        if let Some(status) = &next_status.status {
            object.write_status(client, &key, status).await?;
        }
        managed?;
        Ok(next_status.requeue.map_or(Action::done(), Action::requeue_after))
    }
}

fn is_claimed(set: &ReplicaSet, pod: &Pod) -> bool {
    let owned =
        controller_of(&pod.metadata).is_some_and(|owner| Some(&owner.uid) == set.metadata.uid.as_ref());
    owned && selector::matches(&replica_set_spec(set).selector, pod.metadata.labels.as_ref())
}

enum Managed {
    Unchanged,
    Changed,
}

/// Creates missing pods and deletes surplus ones.
async fn manage<K: Replicated>(
    ctx: &Context,
    object: &K,
    set: &ReplicaSet,
    active: &[&Pod],
) -> Result<Managed, ClientError> {
    let wanted = usize::try_from(replica_set_spec(set).replicas.unwrap_or(1)).unwrap_or(0);
    let related =
        if active.len() > wanted { related_pods::<K>(ctx.client(), set).await? } else { Vec::new() };
    let related: Vec<&Pod> = related.iter().map(|pod| &**pod).collect();
    let plan = plan(set, active, &related, ctx.now());
    if plan.create > 0 {
        return create(ctx, object, set, plan.create).await;
    }
    if plan.delete.is_empty() {
        return Ok(Managed::Unchanged);
    }
    let deletions = plan.delete.iter().map(|index| delete_pod(ctx, object, active[*index]));
    let failed = join_all(deletions).await.into_iter().find_map(Result::err);
    failed.map_or(Ok(Managed::Changed), Err)
}

async fn create<K: Replicated>(
    ctx: &Context,
    object: &K,
    set: &ReplicaSet,
    count: usize,
) -> Result<Managed, ClientError> {
    let pod = pod_from_template(set, object.reference());
    for batch in slow_start(count) {
        let results = join_all((0..batch).map(|_| ctx.client().create(&pod))).await;
        let mut failure = None;
        for result in results {
            match result {
                Ok(pod) => {
                    let name = pod.metadata.name.unwrap_or_default();
                    ctx.recorder().normal(object, "SuccessfulCreate", format!("Created pod: {name}"));
                }
                // The namespace is being deleted, so nothing can be created in it.
                Err(error) if error.is_namespace_terminating() => return Ok(Managed::Unchanged),
                Err(error) => {
                    ctx.recorder().warning(
                        object,
                        "FailedCreate",
                        format!("Error creating: {}", error.message()),
                    );
                    failure = failure.or(Some(error));
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(Managed::Changed)
}

/// Pods of all objects of the kind with the same controller, this one's included.
async fn related_pods<K: Replicated>(
    client: &Client,
    set: &ReplicaSet,
) -> Result<Vec<Arc<Pod>>, ClientError> {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let mut sets = Vec::new();
    if let Some(owner) = controller_of(&set.metadata) {
        sets.extend(children::<K>(client, namespace, &owner.uid).await?);
    }
    let mut uids: Vec<String> = sets.iter().filter_map(|set| set.meta().uid.clone()).collect();
    if uids.is_empty() {
        uids.extend(set.metadata.uid.clone());
    }
    let mut pods = Vec::new();
    for uid in uids {
        pods.extend(children::<Pod>(client, namespace, &uid).await?);
    }
    Ok(pods)
}
