//! The taint of cordoned nodes: who may not be scheduled to carries `node.kubernetes.io/unschedulable`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;
use setpoint::{
    Action, Context, Controller, Error, Manager, NotFoundExt, Patch, Reconciler, Request, SetupError,
};

use crate::deployment::whole_seconds;
use crate::scheduler::unschedulable_taint;

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<Node>(manager)
        .named("node-lifecycle-controller")
        .field_owner(crate::FIELD_OWNER)
        .run(NodeTaints)?;
    Ok(())
}

struct NodeTaints;

impl Reconciler for NodeTaints {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(node) = client.get::<Node>(&request).await? else { return Ok(Action::done()) };
        let Some(taints) = plan(&node, ctx.now()) else { return Ok(Action::done()) };
        let version = node.metadata.resource_version.as_deref().unwrap_or_default();
        // Others write taints too: the list is replaced only as it was seen.
        let patch = Patch::Merge(json!({ "spec": { "taints": taints } })).locked(version);
        client.patch::<Node>(&request, &patch).await.ignore_not_found()?;
        Ok(Action::done())
    }
}

/// The taints that the node should have; none if it has them.
fn plan(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref()?;
    let wanted = unschedulable_taint();
    let is_it = |taint: &Taint| taint.key == wanted.key && taint.effect == wanted.effect;
    let present = spec.taints.as_deref().unwrap_or_default();
    let cordoned = spec.unschedulable == Some(true);
    if present.iter().any(is_it) == cordoned {
        return None;
    }
    let mut taints: Vec<Taint> = present.iter().filter(|taint| !is_it(taint)).cloned().collect();
    if cordoned {
        taints.push(Taint { time_added: Some(whole_seconds(now)), ..wanted });
    }
    Some(taints)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSpec;

    use super::*;

    #[test]
    fn the_taint_follows_the_cordon_and_leaves_others_alone() {
        let other = Taint { key: "team".into(), effect: "NoSchedule".into(), ..Default::default() };
        let own = unschedulable_taint();
        for (cordoned, present, expected) in [
            (false, vec![], None),
            (false, vec![&other], None),
            (true, vec![], Some(vec!["node.kubernetes.io/unschedulable"])),
            (true, vec![&other], Some(vec!["team", "node.kubernetes.io/unschedulable"])),
            (true, vec![&own, &other], None),
            (false, vec![&own, &other], Some(vec!["team"])),
        ] {
            let node = Node {
                spec: Some(NodeSpec {
                    unschedulable: Some(cordoned),
                    taints: Some(present.into_iter().cloned().collect()),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let taints = plan(&node, Timestamp::UNIX_EPOCH);
            let keys = taints.map(|taints| taints.into_iter().map(|taint| taint.key).collect::<Vec<_>>());
            assert_eq!(keys, expected.map(|keys| keys.into_iter().map(str::to_owned).collect()));
        }
    }
}
