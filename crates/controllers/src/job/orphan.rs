//! Pods that no Job counts any more lose the finalizer: their Job is gone or has ended, or they have none.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Predicate, Reconciler, SetupError, Watch};

use super::release::release;
use super::tracked::{FINALIZER, has_finalizer};
use super::{condition, is_foreign};
use crate::children::adopt::{self, CHILDREN};
use crate::children::claim::controller_of;
use crate::children::trigger::is_of_kind;

/// Registers the controller.
pub(super) fn register(manager: &Manager) -> Result<(), SetupError> {
    let jobs = manager.informer::<Job>();
    let pods = adopt::children_informer::<Pod>(manager).lister::<Pod>();
    Controller::for_kind::<Pod>(manager)
        .with_predicate(Predicate::new(may_be_free))
        .watches(Watch::of_target(jobs.target().clone()).map_changes(move |change| of_job(change, &pods)))
        .named("job-orphan-pods")
        .field_owner(crate::FIELD_OWNER)
        .register(Orphans)?;
    Ok(())
}

/// A pod with the finalizer that has no Job or is on its way out. Most pods have none.
fn may_be_free(change: &Change<'_>) -> bool {
    change.new.is_some_and(|pod| {
        pod.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
            && (pod.is_terminating() || pod.controller_owner().is_none())
    })
}

/// The pods of a Job that is gone or has ended.
fn of_job(change: &Change<'_>, pods: &Lister<Pod>) -> Vec<Key> {
    let Some(job) = change.object() else { return Vec::new() };
    let ended =
        change.new.is_none_or(|job| job.decode::<Job>().is_ok_and(|job| condition::finished(&job).is_some()));
    if !ended {
        return Vec::new();
    }
    let uid = job.uid().to_string();
    let left = pods.by_index(CHILDREN, &uid).unwrap_or_default();
    let held = left.iter().filter(|pod| has_finalizer(pod));
    let name = |pod: &std::sync::Arc<Pod>| pod.metadata.name.clone();
    let namespace = job.namespace().unwrap_or_default();
    held.filter_map(name).map(|name| Key::namespaced(namespace, &name)).collect()
}

struct Orphans;

impl Reconciler for Orphans {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(pod) = client.get::<Pod>(&key).await?.filter(|pod| has_finalizer(pod)) else {
            return Ok(Action::done());
        };
        if let Some(owner) = controller_of(&pod.metadata) {
            if !is_of_kind::<Job>(owner) {
                return Ok(Action::done());
            }
            let job = client.get::<Job>(Key::new(key.namespace(), &owner.name)).await?;
            let job = job.filter(|job| job.metadata.uid.as_ref() == Some(&owner.uid));
            if job.is_some_and(|job| is_foreign(&job) || condition::finished(&job).is_none()) {
                return Ok(Action::done());
            }
        }
        release(client, &pod).await?;
        Ok(Action::done())
    }
}
