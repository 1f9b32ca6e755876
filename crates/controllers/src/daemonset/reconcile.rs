//! The thin part: read, keep the history, plan, create or delete pods, tell.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint::{
    Action, ClientError, Context, Controller, Error, Key, Manager, Query, Reconciler, SetupError, Watch,
};

use super::backoff::Backoff;
use super::history::{history, surplus};
use super::manage::{self, Plan};
use super::observed::Observed;
use super::template::pod_for_node;
use super::{rolling, status, trigger};
use crate::children::adopt::{self, Owner, children_and_orphans};
use crate::children::claim::{Claimant, controller_reference};
use crate::children::trigger::Owners;
use crate::children::write::{self, delete_pod};
use crate::object::field::daemon_set_spec;
use crate::object::selector;
use crate::replicaset::slow_start;

/// Number of DaemonSets that are reconciled in parallel.
const CONCURRENCY: usize = 2;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let sets = manager.informer::<DaemonSet>();
    let pods = adopt::children_informer::<Pod>(manager);
    let revisions = adopt::children_informer::<ControllerRevision>(manager);
    let owners = || Owners {
        lister: sets.lister(),
        selector: |set: &DaemonSet| Some(Cow::Borrowed(&daemon_set_spec(set).selector)),
    };
    let (of_pods, of_revisions, all) = (owners(), owners(), sets.lister());
    Controller::for_kind::<DaemonSet>(manager)
        .watches(Watch::of_target(pods.target().clone()).map_changes(move |change| of_pods.of_child(change)))
        .watches(
            Watch::of_target(revisions.target().clone())
                .map_changes(move |change| of_revisions.of_child(change)),
        )
        .watches(Watch::of::<Node>().map_changes(move |change| trigger::of_node(change, &all)))
        .named("daemonset-controller")
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(DaemonSetController::default())?;
    Ok(())
}

#[derive(Default)]
struct DaemonSetController {
    backoff: Mutex<Backoff>,
}

impl Reconciler for DaemonSetController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(set) = client.get::<DaemonSet>(&key).await? else { return Ok(Action::done()) };
        let spec = daemon_set_spec(&set);
        if selector::is_empty(&spec.selector) {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            ctx.recorder().warning(&*set, "SelectingAll", message);
            return Ok(Action::done());
        }
        // The history may be deleted before its DaemonSet. Without it, old and new pods cannot be told apart.
        if set.metadata.deletion_timestamp.is_some() || selector::check(&spec.selector).is_err() {
            return Ok(Action::done());
        }
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        let owner = Owner {
            key: key.clone(),
            claimant: Claimant { uid, deleting: false, selector: &spec.selector },
            reference: controller_reference("apps/v1", "DaemonSet", &set.metadata),
        };
        let pods = children_and_orphans::<Pod>(client, key.namespace().unwrap_or_default(), uid).await?;
        let pods = adopt::claim::<DaemonSet, Pod>(client, &owner, pods).await?;
        self.keep(ctx, &set, &owner, pods).await
    }
}

impl DaemonSetController {
    async fn keep(
        &self,
        ctx: &Context,
        set: &DaemonSet,
        owner: &Owner<'_>,
        pods: Vec<Arc<Pod>>,
    ) -> Result<Action, Error> {
        let client = ctx.client();
        let history = match history(client, set, owner, &pods).await {
            Err(error) if error.is_namespace_terminating() => return Ok(Action::done()),
            history => history?,
        };
        let nodes = client.list::<Node>(Query::all()).await?;
        let (nodes, all) = (nodes.iter().map(|node| &**node), pods.iter().map(|pod| &**pod));
        let observed = Observed::new(set, history.hash(), nodes, all, ctx.now());
        let mut plan =
            manage::plan(&observed, &mut self.backoff.lock().expect("no holder of this lock panics"));
        let retry = plan.retry;
        // Old pods are counted on only when none are missing or too many.
        if plan.is_empty() {
            plan = rolling::plan(&observed);
        }
        let done = carry_out(ctx, &observed, &plan).await;
        // Pods that came or went just now queue this DaemonSet again: they are counted then, once.
        if done.is_ok() && !plan.is_empty() {
            return Ok(retry.map_or(Action::done(), Action::requeue_after));
        }
        let next_status = status::next_status(&observed);
        if let Some(status) = &next_status.status {
            write::status(client, &owner.key, set, set.status.as_ref(), status).await?;
        }
        done?;
        crate::controller_revision::delete(client, &surplus(set, &history, &pods)).await?;
        let requeue = [retry, next_status.requeue].into_iter().flatten().min();
        Ok(requeue.map_or(Action::done(), Action::requeue_after))
    }
}

async fn carry_out(ctx: &Context, observed: &Observed<'_>, plan: &Plan<'_>) -> Result<(), ClientError> {
    for event in &plan.events {
        if event.warning {
            ctx.recorder().warning(observed.set, event.reason, event.message.clone());
        } else {
            ctx.recorder().normal(observed.set, event.reason, event.message.clone());
        }
    }
    let created = create(ctx, observed, &plan.create).await;
    let deletions = plan.delete.iter().map(|pod| delete_pod(ctx, observed.set, pod));
    let deleted = join_all(deletions).await.into_iter().find_map(Result::err);
    created.and(deleted.map_or(Ok(()), Err))
}

async fn create(ctx: &Context, observed: &Observed<'_>, nodes: &[&str]) -> Result<(), ClientError> {
    let (set, mut left) = (observed.set, nodes);
    for batch in slow_start(nodes.len()) {
        let (now, later) = left.split_at(batch);
        left = later;
        let pods: Vec<Pod> = now.iter().map(|node| pod_for_node(set, observed.hash, node)).collect();
        let mut failure = None;
        for result in join_all(pods.iter().map(|pod| ctx.client().create(pod))).await {
            match result {
                Ok(pod) => {
                    let name = pod.metadata.name.unwrap_or_default();
                    ctx.recorder().normal(set, "SuccessfulCreate", format!("Created pod: {name}"));
                }
                // The namespace is being deleted, so nothing can be created in it.
                Err(error) if error.is_namespace_terminating() => return Ok(()),
                Err(error) => {
                    ctx.recorder().warning(
                        set,
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
    Ok(())
}
