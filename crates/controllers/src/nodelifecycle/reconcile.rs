//! The thin part: hear, doubt, write the status, taint, tell the pods.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use serde_json::json;
use setpoint::recorder::EventApi;
use setpoint::recorder::EventType;
use setpoint::{
    Action, Context, Controller, Error, Key, Manager, NotFoundExt, Patch, Query, Reconciler, SetupError,
    Target, Watch,
};

use super::health::State;
use super::silence::unknown;
use super::taints::{self, Drive};
use super::zone::{Turn, Zones, zone};
use crate::object::node;
use crate::object::pod::{condition, node_name};
use crate::object::time::whole_seconds;

/// Namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let state = State::new(manager.informer::<Node>().store().clone(), manager.clock().clone());
    let (of_nodes, of_leases) = (state.clone(), state.clone());
    let leases = Target::of::<Lease>().in_namespace(LEASES);
    Controller::new(manager, "node-lifecycle-controller")
        .watches(Watch::of::<Node>().map_changes(move |change| of_nodes.node_changed(change)))
        .watches(Watch::of_target(leases).map_changes(move |change| of_leases.lease_changed(change)))
        .reads::<Pod>()
        .events("node-controller", EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(NodeLifecycle { state })?;
    Ok(())
}

struct NodeLifecycle {
    state: State,
}

impl Reconciler for NodeLifecycle {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let name = key.name();
        let Some(node) = client.get::<Node>(&key).await? else {
            let uid = self.state.lock().forget(name);
            if uid.is_some() {
                let message = format!("Node {name} event: Removing Node {name} from Controller");
                record(ctx, (name, uid), "RemovingNode", message);
            }
            return Ok(Action::done());
        };
        let lease = client.get::<Lease>((LEASES, name)).await?.and_then(|lease| renewal(&lease));
        let is_new = self.state.lock().observe(&node, lease, ctx.now());
        if is_new {
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            record(ctx, (name, node.metadata.uid.clone()), "RegisteredNode", message);
        }
        let patience = self.state.lock().patience(&node, ctx.now());
        let left = match patience {
            Some(left) => Some(left),
            None => self.doubt(ctx, &node).await?,
        };
        let Some(left) = left else { return self.silence(ctx, &node).await };
        let turn = self.taint(ctx, &node).await?;
        self.tell_pods(ctx, &node).await?;
        let next = left.min(turn.unwrap_or(left));
        Ok(Action::requeue_after(Duration::try_from(next).unwrap_or_default()))
    }
}

impl NodeLifecycle {
    /// Asks the server before a node counts as silent. Returns the remaining time if the node did report.
    async fn doubt(&self, ctx: &Context, node: &Node) -> Result<Option<SignedDuration>, Error> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let live = ctx.client().live().get::<Lease>((LEASES, name)).await?;
        let renewed = live.as_ref().and_then(renewal);
        let mut known = self.state.lock();
        if known.is_news(name, renewed) {
            known.observe(node, renewed, ctx.now());
        }
        Ok(known.patience(node, ctx.now()))
    }

    /// Writes that nothing is known of the node, and goes on when the cache shows it.
    async fn silence(&self, ctx: &Context, node: &Node) -> Result<Action, Error> {
        if let Some(status) = unknown(node, ctx.now()) {
            // Locked to the state that was judged: the node may have reported meanwhile.
            let silent = Node { status: Some(status), ..node.clone() };
            ctx.client().update_status(&silent).await.ignore_not_found()?;
            return Ok(Action::done());
        }
        let turn = self.taint(ctx, node).await?;
        self.tell_pods(ctx, node).await?;
        // A lease or a status that comes queues it again.
        let left = turn.map(|left| Duration::try_from(left).unwrap_or_default());
        Ok(left.map_or(Action::done(), Action::requeue_after))
    }

    /// Corrects the taints. Returns the pause until the node's turn, if it waits for one.
    async fn taint(&self, ctx: &Context, node: &Node) -> Result<Option<SignedDuration>, Error> {
        let all = ctx.client().list::<Node>(Query::all()).await?;
        let (drive, turn) = self.drive(node, &Zones::of(all.iter().map(|node| &**node)), ctx);
        let Some(taints) = taints::plan(node, drive, ctx.now()) else { return Ok(turn) };
        let version = node.metadata.resource_version.as_deref().unwrap_or_default();
        // Others write taints too: the list is replaced only as it was seen.
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } })).locked(version);
        let name = node.metadata.name.as_deref().unwrap_or_default();
        ctx.client().patch::<Node>(Key::new(None, name), &patch).await.ignore_not_found()?;
        Ok(turn)
    }

    fn drive(&self, node: &Node, zones: &Zones, ctx: &Context) -> (Drive, Option<SignedDuration>) {
        let mut known = self.state.lock();
        if zones.is_dark() {
            known.pace.dark = true;
            return (Drive::Nobody, None);
        }
        if std::mem::take(&mut known.pace.dark) {
            known.forgive(ctx.now());
        }
        if !taints::is_due(node) {
            return (Drive::NotYet, None);
        }
        match known.pace.take(&zone(node), zones, ctx.now()) {
            Turn::Now => (Drive::Off, None),
            Turn::In(left) => (Drive::NotYet, Some(left)),
            Turn::Never => (Drive::NotYet, None),
        }
    }

    /// Marks the pods of a node as not ready, once for each time that the node ceases to be ready.
    async fn tell_pods(&self, ctx: &Context, node: &Node) -> Result<(), Error> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let not_ready = node::condition(node, "Ready").is_some_and(|ready| ready.status != "True");
        let marked = self.state.lock().of(name).is_none_or(|health| health.marked_pods);
        if not_ready && !marked {
            let message = format!("Node {name} status is now: NodeNotReady");
            record(ctx, (name, node.metadata.uid.clone()), "NodeNotReady", message);
            for pod in ctx.client().list::<Pod>(Query::all()).await? {
                if node_name(&pod) == name {
                    mark_not_ready(ctx, &pod).await?;
                }
            }
        }
        if let Some(health) = self.state.lock().of(name) {
            health.marked_pods = not_ready;
        }
        Ok(())
    }
}

fn renewal(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

async fn mark_not_ready(ctx: &Context, pod: &Pod) -> Result<(), Error> {
    let Some(ready) = condition(pod, "Ready").filter(|ready| ready.status != "False") else {
        return Ok(());
    };
    let mut ready = ready.clone();
    ready.status = "False".into();
    ready.last_transition_time = Some(whole_seconds(ctx.now()));
    let patch = json!({ "metadata": { "uid": pod.metadata.uid }, "status": { "conditions": [ready] } });
    let meta = &pod.metadata;
    let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    ctx.client().patch_status::<Pod>(&key, &Patch::Strategic(patch)).await.ignore_not_found()?;
    ctx.recorder().warning(pod, "NodeNotReady", "Node is not ready");
    Ok(())
}

/// kube-controller-manager names nodes without a version.
fn record(ctx: &Context, (name, uid): (&str, Option<String>), reason: &str, message: String) {
    let regarding = ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Node".into()),
        name: Some(name.to_owned()),
        uid,
        ..ObjectReference::default()
    };
    ctx.recorder().publish(EventType::Normal, regarding, None, reason, reason, message);
}
