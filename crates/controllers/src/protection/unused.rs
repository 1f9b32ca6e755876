//! Whether a bound claim is used, and since when it is not: the condition `Unused`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition, Pod};
use serde_json::json;
use setpoint::client::is_controlled_by;
use setpoint::informer::Store;
use setpoint::predicate::Change;
use setpoint::{
    Action, Context, Controller, Error, Key, Manager, NotFoundExt, Object, Patch, Predicate, Query,
    Reconciler, SetupError, Watch,
};

use crate::object::pod::{claim_name, is_terminal, volumes};
use crate::object::time::whole_seconds;

/// Registers the controller.
pub(super) fn register(manager: &Manager) -> Result<(), SetupError> {
    let known = manager.informer::<PersistentVolumeClaim>();
    Controller::for_kind::<PersistentVolumeClaim>(manager)
        .with_predicate(Predicate::new(|change| change.new.is_some_and(is_bound)))
        .watches(Watch::of::<Pod>().map_changes(move |change| of_pod(change, known.store())))
        .named("persistentvolumeclaim-unused")
        .field_owner(crate::FIELD_OWNER)
        .register(Unused)?;
    Ok(())
}

fn is_bound(claim: &Object) -> bool {
    !claim.is_terminating() && claim.path("status.phase").as_deref() == Some("Bound")
}

/// The claims of a pod that comes, ends or is gone.
fn of_pod(change: &Change<'_>, claims: &Store) -> Vec<Key> {
    let phase = |pod: &Object| pod.path("status.phase");
    let stays = |(old, new): (&Object, &Object)| {
        old.uid() == new.uid() && phase(old) == phase(new) && !new.is_terminating()
    };
    // Most clusters have no claim: their pods are not decoded.
    if claims.is_empty() || change.update().is_some_and(stays) {
        return Vec::new();
    }
    let both = change.old.into_iter().chain(change.new);
    let decoded: Vec<Pod> = both.filter_map(|pod| pod.decode().ok()).collect();
    let keys = decoded.iter().flat_map(|pod| {
        let names = volumes(pod).filter_map(|volume| claim_name(pod, volume));
        names.map(|name| Key::new(pod.metadata.namespace.as_deref(), &name))
    });
    keys.filter(|key| claims.get(key.as_str()).is_some()).collect()
}

struct Unused;

impl Reconciler for Unused {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(claim) = client.get::<PersistentVolumeClaim>(&key).await? else {
            return Ok(Action::done());
        };
        let near = Query::namespace(key.namespace().unwrap_or_default());
        let is_used = client.list::<Pod>(near).await?.iter().any(|pod| uses(pod, &claim));
        let Some(condition) = condition(&claim, is_used, ctx.now()) else { return Ok(Action::done()) };
        let patch =
            json!({ "metadata": { "uid": claim.metadata.uid }, "status": { "conditions": [condition] } });
        let patch = Patch::Strategic(patch);
        client.patch_status::<PersistentVolumeClaim>(&key, &patch).await.ignore_not_found()?;
        Ok(Action::done())
    }
}

/// Whether the pod refers to the claim and has not ended, on a node or not.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut states = statuses.filter_map(|status| status.state.as_ref());
    let is_over = is_terminal(pod)
        || (pod.metadata.deletion_timestamp.is_some() && states.all(|state| state.running.is_none()));
    !is_over
        && volumes(pod).any(|volume| {
            claim_name(pod, volume) == claim.metadata.name
                && (volume.ephemeral.is_none() || is_controlled_by(claim, pod))
        })
}

/// The condition, if the claim does not say so already.
fn condition(
    claim: &PersistentVolumeClaim,
    is_used: bool,
    now: Timestamp,
) -> Option<PersistentVolumeClaimCondition> {
    let status = claim.status.as_ref().filter(|status| status.phase.as_deref() == Some("Bound"))?;
    let said = status.conditions.iter().flatten().find(|condition| condition.type_ == "Unused");
    let (value, reason, message) = match is_used {
        true => ("False", "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let is_so = claim.metadata.deletion_timestamp.is_some() || said.is_some_and(|said| said.status == value);
    (!is_so).then(|| PersistentVolumeClaimCondition {
        type_: "Unused".into(),
        status: value.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_transition_time: Some(whole_seconds(now)),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn claim(phase: &str, said: &[&str]) -> PersistentVolumeClaim {
        let said: Vec<Value> =
            said.iter().map(|status| json!({ "type": "Unused", "status": status })).collect();
        serde_json::from_value(json!({ "metadata": { "name": "c", "namespace": "ns" },
            "status": { "phase": phase, "conditions": said } }))
        .unwrap()
    }

    #[test]
    fn a_bound_claim_says_whether_it_is_used() {
        let now = Timestamp::UNIX_EPOCH;
        for (claim, is_used, expected) in [
            (claim("Pending", &[]), true, None),
            (claim("Bound", &[]), true, Some("False")),
            (claim("Bound", &[]), false, Some("True")),
            (claim("Bound", &["False"]), true, None),
            (claim("Bound", &["False"]), false, Some("True")),
            (claim("Bound", &["True"]), true, Some("False")),
        ] {
            let said = condition(&claim, is_used, now).map(|condition| condition.status);
            assert_eq!(said.as_deref(), expected);
        }
    }

    #[test]
    fn a_pod_uses_its_claims_until_it_has_ended() {
        let pod = |status: Value, meta: Value| -> Pod {
            serde_json::from_value(json!({ "metadata": meta, "status": status, "spec": { "containers": [],
                "volumes": [{ "name": "d", "persistentVolumeClaim": { "claimName": "c" } }] } }))
            .unwrap()
        };
        let going = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let running = json!({ "containerStatuses": [{ "name": "c", "state": { "running": {} } }] });
        let stopped = json!({ "containerStatuses": [{ "name": "c", "state": { "waiting": {} } }] });
        for (pod, expected) in [
            (pod(json!({ "phase": "Pending" }), json!({})), true),
            (pod(json!({ "phase": "Failed" }), json!({})), false),
            (pod(running, going.clone()), true),
            (pod(stopped.clone(), going), false),
            (pod(stopped, json!({})), true),
        ] {
            assert_eq!(uses(&pod, &claim("Bound", &[])), expected, "{:?}", pod.status);
        }
    }
}
