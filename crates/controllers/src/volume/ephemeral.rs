//! Ephemeral volumes: a pod that describes a claim gets it, and it goes with the pod.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint::client::is_controlled_by;
use setpoint::predicate::Change;
use setpoint::recorder::EventApi;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Reconciler, SetupError, Watch};

use crate::children::claim::controller_reference;
use crate::object::pod::{claim_name, is_active, volumes};

/// The name under which people know the events of ephemeral volumes.
const SOURCE: &str = "ephemeral_volume";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::new(manager, "ephemeral-volume-controller")
        .watches(Watch::of::<Pod>().map_changes(of_pod))
        .watches(Watch::of::<PersistentVolumeClaim>().map_changes(of_claim))
        .events(SOURCE, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Ephemeral)?;
    Ok(())
}

/// New pods that describe claims; the others, nearly all, are not decoded.
fn of_pod(change: &Change<'_>) -> Vec<Key> {
    let says = |json: &[u8]| std::str::from_utf8(json).is_ok_and(|text| text.contains("\"ephemeral\":"));
    let is_new = change.update().is_none_or(|(old, new)| old.uid() != new.uid());
    let pod = change.new.filter(|pod| is_new && !pod.is_terminating() && says(&pod.json()));
    pod.map(|pod| pod.key().clone()).into_iter().collect()
}

/// The pod whose claim was deleted.
fn of_claim(change: &Change<'_>) -> Vec<Key> {
    let (Some(old), None) = (change.old, change.new) else { return Vec::new() };
    let owner = old.controller_owner().filter(|owner| owner.kind == "Pod");
    let request = |name: &str| Key::namespaced(old.namespace().unwrap_or_default(), name);
    owner.map(|owner| request(&owner.name)).into_iter().collect()
}

struct Ephemeral;

impl Reconciler for Ephemeral {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(pod) = client.get::<Pod>(&key).await?.filter(|pod| is_active(pod)) else {
            return Ok(Action::done());
        };
        for volume in volumes(&pod) {
            if let Err(why) = make(ctx, &pod, volume).await {
                let message = format!("ephemeral volume {}: {why}", volume.name);
                ctx.recorder().warning(&*pod, "FailedBinding", message);
                return Err(why);
            }
        }
        Ok(Action::done())
    }
}

async fn make(ctx: &Context, pod: &Pod, volume: &Volume) -> Result<(), Error> {
    let client = ctx.client();
    let Some(wanted) = claim(pod, volume) else { return Ok(()) };
    let meta = &wanted.metadata;
    let key = Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
    if let Some(present) = client.get::<PersistentVolumeClaim>(&key).await? {
        let name = Key::new(meta.namespace.as_deref(), pod.metadata.name.as_deref().unwrap_or_default());
        let foreign = || Error::msg(format!("PVC {key} was not created for pod {name} (pod is not owner)"));
        return is_controlled_by(&*present, pod).then_some(()).ok_or_else(foreign);
    }
    match client.create(&wanted).await {
        // This controller created it a moment ago, or another writer did. The cache will show it.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(Error::msg(format!("create PVC {}: {}", key.name(), error.message()))),
        Ok(_) => Ok(()),
    }
}

/// The claim that a volume describes.
fn claim(pod: &Pod, volume: &Volume) -> Option<PersistentVolumeClaim> {
    let template = volume.ephemeral.as_ref()?.volume_claim_template.clone()?;
    let meta = template.metadata.unwrap_or_default();
    Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: claim_name(pod, volume),
            namespace: pod.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: Some(vec![controller_reference("v1", "Pod", &pod.metadata)]),
            ..Default::default()
        },
        spec: Some(template.spec),
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint::Object;
    use setpoint::queue::Trigger;

    use super::*;

    #[test]
    fn a_pod_that_describes_a_claim_is_looked_at_once_and_owns_it() {
        let template =
            json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "accessModes": ["ReadWriteOnce"] } });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1" },
            "spec": { "containers": [], "volumes": [{ "name": "e" },
                { "name": "d", "ephemeral": { "volumeClaimTemplate": template } }] } });
        let object = Object::from_json(pod.to_string().as_bytes()).unwrap();
        let change = |old| Change { trigger: Trigger::Updated, old, new: Some(&object) };
        assert_eq!(of_pod(&change(None)).len(), 1);
        assert!(of_pod(&change(Some(&object))).is_empty());
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let made: Vec<_> = volumes(&pod).filter_map(|volume| claim(&pod, volume)).collect();
        assert_eq!(
            json!(made),
            json!([{ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": "p-d", "namespace": "ns", "labels": { "a": "b" }, "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true,
                    "blockOwnerDeletion": true }] },
                "spec": { "accessModes": ["ReadWriteOnce"] } }])
        );
        assert!(is_controlled_by(&made[0], &pod));
    }
}
