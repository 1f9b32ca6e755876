//! The thin part: decide about one pod, wait, mark it and delete it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use serde_json::json;
use setpoint::informer::Uid;
use setpoint::recorder::EventApi;
use setpoint::recorder::EventType;
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Patch, Reconciler,
    SetupError, Watch,
};

use super::plan::{Fate, fate, no_execute};
use super::state::State;
use crate::object::pod::{disruption_target, node_name};

const NAME: &str = "taint-eviction-controller";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let state = State::new(manager.informer::<Pod>().store().clone());
    let (of_pods, of_nodes) = (state.clone(), state.clone());
    Controller::new(manager, NAME)
        .events(NAME, EventApi::CoreV1)
        .watches(Watch::of::<Pod>().map_changes(move |change| of_pods.pod_changed(change)))
        .watches(Watch::of::<Node>().map_changes(move |change| of_nodes.node_changed(change)))
        .field_owner(crate::FIELD_OWNER)
        .register(TaintEviction { state })?;
    Ok(())
}

struct TaintEviction {
    state: State,
}

impl Reconciler for TaintEviction {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(pod) = client.get::<Pod>(&key).await? else {
            self.stays(ctx, &key);
            return Ok(Action::done());
        };
        if pod.metadata.deletion_timestamp.is_some() || node_name(&pod).is_empty() {
            self.state.clear_deletion_time(&key);
            return Ok(Action::done());
        }
        let uid = Uid::new(pod.metadata.uid.as_deref().unwrap_or_default());
        let deletion_time = self.state.deletion_time(&key, &uid);
        let now = ctx.now();
        let fate = match client.get::<Node>(Key::new(None, node_name(&pod))).await? {
            Some(node) => {
                let spec = pod.spec.as_ref();
                let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
                fate(&no_execute(&node), tolerations, deletion_time, now)
            }
            // A time that was set before the node went still holds.
            None => deletion_time.map_or(Fate::Stay, |at| if at > now { Fate::GoAt(at) } else { Fate::Go }),
        };
        match fate {
            Fate::Stay => self.stays(ctx, &key),
            Fate::GoAt(at) => {
                self.state.set_deletion_time(&key, &uid, at);
                let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
                return Ok(Action::requeue_after(left));
            }
            Fate::Go => {
                evict(ctx, &key, &pod).await?;
                self.state.clear_deletion_time(&key);
            }
        }
        Ok(Action::done())
    }
}

impl TaintEviction {
    fn stays(&self, ctx: &Context, key: &Key) {
        if self.state.clear_deletion_time(key) {
            record(ctx, key, "Cancelling deletion of");
        }
    }
}

/// Writes the reason, and deletes the pod with its own grace period.
async fn evict(ctx: &Context, key: &Key, pod: &Pod) -> Result<(), Error> {
    let client = ctx.client();
    record(ctx, key, "Marking for deletion");
    let why = "Taint manager: deleting due to NoExecute taint";
    if let Some(condition) = disruption_target(pod, "DeletionByTaintManager", why, ctx.now()) {
        let patch =
            json!({ "metadata": { "uid": pod.metadata.uid }, "status": { "conditions": [condition] } });
        client.patch_status::<Pod>(key, &Patch::Strategic(patch)).await.ignore_not_found()?;
    }
    let options = DeleteOptions::default().uid(pod.metadata.uid.clone().unwrap_or_default());
    client.delete_with::<Pod>(key, &options).await.ignore_not_found()?;
    Ok(())
}

/// About the pod of that name, whichever it is: kube-controller-manager names no uid here.
fn record(ctx: &Context, key: &Key, what: &str) {
    let pod = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: key.namespace().map(str::to_owned),
        name: Some(key.name().to_owned()),
        ..ObjectReference::default()
    };
    let reason = "TaintManagerEviction";
    ctx.recorder().publish(EventType::Normal, pod, None, reason, reason, format!("{what} Pod {key}"));
}
