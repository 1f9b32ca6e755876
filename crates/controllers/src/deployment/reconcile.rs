//! The thin part: read, plan, write, tell.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint::recorder::EventApi;
use setpoint::{
    Action, Client, ClientError, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Patch,
    Reconciler, SetupError, Watch,
};

use super::decision::{Change, Event, Plan, Rollback};
use super::plan::{Observed, plan};
use super::{REVISION, condition, status, template, trigger};
use crate::children::adopt::{self, Owner, children, children_and_orphans};
use crate::children::claim::{Claimant, controller_of, controller_reference};
use crate::children::write;
use crate::object::field::{deployment_spec, replica_set_spec};
use crate::object::pod::is_terminal;
use crate::object::selector;

/// Number of Deployments that are reconciled in parallel.
const CONCURRENCY: usize = 5;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let deployments = manager.informer::<Deployment>();
    let sets = adopt::children_informer::<ReplicaSet>(manager);
    let pods = adopt::children_informer::<Pod>(manager);
    let (owners, parents) = (deployments.lister(), sets.lister());
    let of_set = trigger::Deployments(deployments.lister());
    Controller::for_kind::<Deployment>(manager)
        .watches(
            Watch::of_target(sets.target().clone()).map_changes(move |change| of_set.of_replica_set(change)),
        )
        .watches(
            Watch::of_target(pods.target().clone())
                .map_changes(move |change| trigger::of_pod(change, &parents, &owners)),
        )
        .events("deployment-controller", EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(DeploymentController)?;
    Ok(())
}

struct DeploymentController;

impl Reconciler for DeploymentController {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(deployment) = client.get::<Deployment>(&key).await? else { return Ok(Action::done()) };
        let sets = claimed_sets(client, &key, &deployment).await?;
        let running = running_sets(client, &deployment, &sets).await?;
        let observed = Observed {
            deployment: &deployment,
            replica_sets: &sets.iter().map(|set| &**set).collect::<Vec<_>>(),
            running: &running,
        };
        let plan = plan(&observed, ctx.now());
        let requeue = plan.requeue;
        carry_out(ctx, &key, &deployment, plan).await?;
        Ok(requeue.map_or(Action::done(), Action::requeue_after))
    }
}

async fn claimed_sets(
    client: &Client,
    key: &Key,
    deployment: &Deployment,
) -> Result<Vec<Arc<ReplicaSet>>, ClientError> {
    let spec = deployment_spec(deployment);
    if selector::is_empty(&spec.selector) {
        return Ok(Vec::new());
    }
    let uid = deployment.metadata.uid.as_deref().unwrap_or_default();
    let candidates = children_and_orphans(client, key.namespace().unwrap_or_default(), uid).await?;
    let owner = Owner {
        key: key.clone(),
        claimant: Claimant {
            uid,
            deleting: deployment.metadata.deletion_timestamp.is_some(),
            selector: &spec.selector,
        },
        reference: controller_reference("apps/v1", "Deployment", &deployment.metadata),
    };
    adopt::claim::<Deployment, ReplicaSet>(client, &owner, candidates).await
}

/// Uids of the ReplicaSets that own pods which have not ended; only Recreate asks.
async fn running_sets(
    client: &Client,
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
) -> Result<BTreeSet<String>, ClientError> {
    let mut running = BTreeSet::new();
    if !trigger::is_recreate(deployment) {
        return Ok(running);
    }
    let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
    for uid in sets.iter().filter_map(|set| set.metadata.uid.as_deref()) {
        let pods = children::<Pod>(client, namespace, uid).await?;
        if pods.iter().any(|pod| !is_terminal(pod)) {
            running.insert(uid.to_owned());
        }
    }
    Ok(running)
}

async fn carry_out(ctx: &Context, key: &Key, deployment: &Deployment, plan: Plan) -> Result<(), Error> {
    let client = ctx.client();
    if let Some(set) = &plan.create
        && !create(ctx, key, deployment, set).await?
    {
        return Ok(());
    }
    for change in &plan.change {
        let name = Key::new(key.namespace(), &change.name);
        client.patch::<ReplicaSet>(name, &change_patch(change)).await?;
    }
    record(ctx, deployment, &plan.events);
    for (name, uid) in &plan.delete {
        let options = DeleteOptions::background().uid(uid);
        let name = Key::new(key.namespace(), name);
        client.delete_with::<ReplicaSet>(name, &options).await.ignore_not_found()?;
    }
    if let Some(rollback) = &plan.rollback {
        client.patch::<Deployment>(key, &rollback_patch(deployment, rollback)).await?;
    }
    write_status(client, key, deployment, &plan).await
}

fn record(ctx: &Context, deployment: &Deployment, events: &[Event]) {
    for event in events {
        if event.warning {
            ctx.recorder().warning(deployment, event.reason, event.message.clone());
        } else {
            ctx.recorder().normal(deployment, event.reason, event.message.clone());
        }
    }
}

/// Creates the new ReplicaSet. False if there is nothing more to do now.
async fn create(ctx: &Context, key: &Key, deployment: &Deployment, set: &ReplicaSet) -> Result<bool, Error> {
    let client = ctx.client();
    let name = set.metadata.name.as_deref().unwrap_or_default();
    match client.create(set).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_namespace_terminating() => Ok(false),
        Err(error) if error.is_already_exists() => {
            let found = client.live().get::<ReplicaSet>(Key::new(key.namespace(), name)).await?;
            if found.is_none_or(|found| is_ours(deployment, &found)) {
                // It came between our look and our write; the next look sees it.
                return Err(error.into());
            }
            let before = deployment.status.clone().unwrap_or_default();
            let after = status::with_collision(before.clone());
            client.patch_status::<Deployment>(key, &status_patch(deployment, &before, &after, None)?).await?;
            Err(error.into())
        }
        Err(error) => {
            let message = format!("Failed to create new replica set {name:?}: {}", error.message());
            if condition::progress_deadline(deployment).is_some() {
                let before = deployment.status.clone().unwrap_or_default();
                let after = status::with_create_failure(before.clone(), message.clone(), ctx.now());
                let patch = status_patch(deployment, &before, &after, None)?;
                // The original error must be reported. An error of this status write occurs again at the next
                // attempt.
                let _ = client.patch_status::<Deployment>(key, &patch).await;
            }
            ctx.recorder().warning(deployment, condition::REPLICA_SET_CREATE_ERROR, message);
            Err(error.into())
        }
    }
}

fn is_ours(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let owned = controller_of(&set.metadata)
        .is_some_and(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref());
    let template = replica_set_spec(set).template.as_ref();
    let wanted = &deployment_spec(deployment).template;
    owned && template.is_some_and(|found| template::equal_ignoring_hash(found, wanted))
}

/// Locked to the state that the plan was made from: sizes must add up.
fn change_patch(change: &Change) -> Patch {
    let mut patch = json!({ "metadata": { "uid": change.uid } });
    if !change.annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(change.annotations);
    }
    if let Some(replicas) = change.replicas {
        patch["spec"]["replicas"] = json!(replicas);
    }
    if let Some(seconds) = change.min_ready_seconds {
        patch["spec"]["minReadySeconds"] = json!(seconds);
    }
    Patch::Merge(patch).locked(&change.resource_version)
}

fn rollback_patch(deployment: &Deployment, rollback: &Rollback) -> Patch {
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": deployment.metadata.resource_version }),
        json!({ "op": "replace", "path": "/metadata/annotations", "value": rollback.annotations }),
    ];
    if let Some(template) = &rollback.template {
        operations.push(json!({ "op": "replace", "path": "/spec/template", "value": template }));
    }
    Patch::Json(operations.into())
}

async fn write_status(client: &Client, key: &Key, deployment: &Deployment, plan: &Plan) -> Result<(), Error> {
    if plan.status.is_none() && plan.revision.is_none() {
        return Ok(());
    }
    let before = deployment.status.clone().unwrap_or_default();
    let after = plan.status.as_ref().unwrap_or(&before);
    let patch = status_patch(deployment, &before, after, plan.revision.as_deref())?;
    // The Deployment was deleted meanwhile, so its status has no reader.
    let written = client.patch_status::<Deployment>(key, &patch).await.ignore_not_found()?;
    let Some(written) = written else { return Ok(()) };
    // kube-apiserver takes annotations along with a Deployment's status; a server that does not is asked again.
    let shown = written.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION));
    if let Some(revision) = plan.revision.as_ref().filter(|revision| shown != Some(*revision)) {
        let patch =
            json!({ "metadata": { "uid": written.metadata.uid, "annotations": { REVISION: revision } } });
        client.patch::<Deployment>(key, &Patch::Merge(patch)).await?;
    }
    Ok(())
}

fn status_patch(
    deployment: &Deployment,
    before: &DeploymentStatus,
    after: &DeploymentStatus,
    revision: Option<&str>,
) -> Result<Patch, ClientError> {
    let mut patch = write::status_patch(&deployment.metadata, before, after)?;
    if let (Patch::Merge(patch), Some(revision)) = (&mut patch, revision) {
        patch["metadata"]["annotations"] = json!({ REVISION: revision });
    }
    Ok(patch)
}
