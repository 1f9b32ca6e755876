//! The thin part: look at a pod and its node, wait out the quarantine, mark, delete.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Patch, Reconciler,
    SetupError, Watch,
};

use super::plan::{Cause, cause, failed, is_settled};
use super::state::{QUARANTINE, State};
use crate::object::pod::node_name;

/// Number of ended pods that may stay.
const TERMINATED_PODS: usize = 12_500;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let (pods, nodes) = (manager.informer::<Pod>(), manager.informer::<Node>());
    let state = State::new(pods.store().clone(), nodes.store().clone(), TERMINATED_PODS);
    let (of_pods, of_nodes) = (state.clone(), state.clone());
    Controller::new(manager, "pod-garbage-collector-controller")
        .watches(Watch::of::<Pod>().map_changes(move |change| of_pods.pod_changed(change)))
        .watches(Watch::of::<Node>().map_changes(move |change| of_nodes.node_changed(change)))
        .field_owner(crate::FIELD_OWNER)
        .register(Collector { state })?;
    Ok(())
}

struct Collector {
    state: State,
}

impl Reconciler for Collector {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        if key.namespace().is_none() {
            return self.thin_out(ctx).await;
        }
        let client = ctx.client();
        let Some(pod) = client.get::<Pod>(&key).await? else { return Ok(Action::done()) };
        if is_settled(&pod) {
            return Ok(Action::done());
        }
        let name = node_name(&pod);
        let node = match name {
            "" => None,
            name => client.get::<Node>(Key::new(None, name)).await?,
        };
        let Some(cause) = cause(&pod, node.as_deref()) else { return Ok(Action::done()) };
        if cause == Cause::Orphaned
            && let Some(left) = self.doubt(ctx, name).await?
        {
            return Ok(Action::requeue_after(Duration::try_from(left).unwrap_or_default()));
        }
        collect(ctx, &pod, Some(cause)).await?;
        Ok(Action::done())
    }
}

impl Collector {
    /// Returns the time for which a missing node's absence is still in doubt: a node that the cache lacks may be new.
    async fn doubt(&self, ctx: &Context, node: &str) -> Result<Option<SignedDuration>, Error> {
        if let Some(left) = self.state.quarantine(node, ctx.now()) {
            return Ok(Some(left));
        }
        if ctx.client().live().get::<Node>(Key::new(None, node)).await?.is_some() {
            self.state.found(node);
            return Ok(Some(QUARANTINE));
        }
        Ok(None)
    }

    /// Deletes the oldest of too many pods that have ended.
    async fn thin_out(&self, ctx: &Context) -> Result<Action, Error> {
        for key in self.state.surplus() {
            let pod = ctx.client().get::<Pod>(&key).await?;
            if let Some(pod) = pod.filter(|pod| !is_settled(pod)) {
                collect(ctx, &pod, None).await?;
            }
        }
        Ok(Action::done())
    }
}

/// Marks the pod as failed, and deletes it with a grace period of zero.
async fn collect(ctx: &Context, pod: &Pod, cause: Option<Cause>) -> Result<(), Error> {
    let meta = &pod.metadata;
    let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    if let Some(patch) = failed(pod, cause, ctx.now()) {
        ctx.client().patch_status::<Pod>(&key, &Patch::Strategic(patch)).await.ignore_not_found()?;
    }
    let uid = meta.uid.clone().unwrap_or_default();
    let options = DeleteOptions::default().uid(uid).grace_period(0);
    ctx.client().delete_with::<Pod>(&key, &options).await.ignore_not_found()?;
    Ok(())
}
