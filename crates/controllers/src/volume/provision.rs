//! The provisioner of simulated volumes: creates a volume for each claim whose class names it, and deletes its
//! volumes when their claims are gone. It stands beside the binder like a CSI driver's provisioner, and works beside
//! kube-controller-manager too.

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use setpoint::recorder::EventApi;
use setpoint::{
    Action, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Object, Predicate,
    Reconciler, SetupError,
};

use super::class::{is_delayed, of_claim};
use super::reconcile::{record, write};
use super::release::policy;
use super::{
    BIND_COMPLETED, Notice, PROVISIONED_BY, SELECTED_NODE, STORAGE_PROVISIONER, annotation, bind, name_of,
};

/// The provisioner of simulated volumes, as StorageClasses name it, and the driver of its volumes.
pub const PROVISIONER: &str = "simulated.setpoint.dev";

/// Registers the controllers: one for claims that need a volume, one for volumes that are no longer needed.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<PersistentVolumeClaim>(manager)
        .with_predicate(Predicate::new(|change| change.new.is_some_and(is_ours)))
        .reads::<StorageClass>()
        .reads::<Node>()
        .named("persistentvolume-provisioner")
        .events(PROVISIONER, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Claims)?;
    Controller::for_kind::<PersistentVolume>(manager)
        .with_predicate(Predicate::new(|change| change.new.is_some_and(is_released)))
        .named("persistentvolume-provisioner-volumes")
        .events(PROVISIONER, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Volumes)?;
    Ok(())
}

fn is_ours(claim: &Object) -> bool {
    claim.annotation(STORAGE_PROVISIONER[0]).as_deref() == Some(PROVISIONER)
}

fn is_released(volume: &Object) -> bool {
    volume.path("status.phase").as_deref() == Some("Released")
        && volume.annotation(PROVISIONED_BY).as_deref() == Some(PROVISIONER)
}

struct Claims;

impl Reconciler for Claims {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(claim) = client.get::<PersistentVolumeClaim>(&key).await? else {
            return Ok(Action::done());
        };
        let class = client.get::<StorageClass>(&Key::new(None, of_claim(&claim))).await?;
        let Some(class) = class.filter(|class| wants(&claim, class)) else { return Ok(Action::done()) };
        if let Some(node) = annotation(&claim.metadata, SELECTED_NODE)
            && client.get::<Node>(&Key::new(None, node)).await?.is_none()
        {
            // The scheduler has to look for another.
            let why = format!("failed to get target node: node {node:?} not found");
            record(ctx, &*claim, &Notice::warning("ProvisioningFailed", why));
            let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
            write(client, &*claim, Some(patch)).await?;
            return Ok(Action::done());
        }
        let Some(volume) = volume(&claim, &class) else { return Ok(Action::done()) };
        match client.create(&volume).await {
            // By us, before we could tell.
            Err(error) if error.is_already_exists() => return Ok(Action::done()),
            made => made?,
        };
        let message = format!("Successfully provisioned volume {}", name_of(&volume.metadata));
        record(ctx, &*claim, &Notice::normal("ProvisioningSucceeded", message));
        Ok(Action::done())
    }
}

/// Whether a claim of this class needs a new volume now.
fn wants(claim: &PersistentVolumeClaim, class: &StorageClass) -> bool {
    let has_volume =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_some_and(|name| !name.is_empty());
    let is_told = annotation(&claim.metadata, STORAGE_PROVISIONER[0]) == Some(PROVISIONER);
    let is_early = is_delayed(class) && annotation(&claim.metadata, SELECTED_NODE).is_none();
    class.provisioner == PROVISIONER
        && is_told
        && !is_early
        && !has_volume
        && annotation(&claim.metadata, BIND_COMPLETED).is_none()
        && claim.metadata.deletion_timestamp.is_none()
}

/// The volume for a claim. Its name follows from the claim, so that there is never a second.
fn volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> Option<PersistentVolume> {
    let name = format!("pvc-{}", claim.metadata.uid.as_deref()?);
    let spec = claim.spec.as_ref()?;
    let size = spec.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let volume = json!({
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: PROVISIONER } },
        "spec": {
            "capacity": { "storage": size }, "accessModes": spec.access_modes, "volumeMode": spec.volume_mode,
            "volumeAttributesClassName": spec.volume_attributes_class_name,
            "storageClassName": class.metadata.name, "mountOptions": class.mount_options,
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "claimRef": bind::reference(claim),
            "csi": { "driver": PROVISIONER, "volumeHandle": name },
        },
    });
    Some(serde_json::from_value(volume).expect("these are the fields of a volume"))
}

struct Volumes;

impl Reconciler for Volumes {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(volume) = client.get::<PersistentVolume>(&key).await? else {
            return Ok(Action::done());
        };
        if policy(&volume) == "Delete" && volume.metadata.deletion_timestamp.is_none() {
            let seen = volume.metadata.resource_version.clone().unwrap_or_default();
            let options = DeleteOptions::default().resource_version(seen);
            client.delete_with::<PersistentVolume>(&key, &options).await.ignore_not_found()?;
        }
        Ok(Action::done())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::Value;

    use super::*;

    fn class(mode: &str) -> StorageClass {
        StorageClass {
            metadata: ObjectMeta { name: Some("standard".into()), ..Default::default() },
            provisioner: PROVISIONER.into(),
            volume_binding_mode: Some(mode.into()),
            ..Default::default()
        }
    }

    fn claim(annotations: Value, volume_name: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "metadata": { "name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "7", "annotations": annotations },
            "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": volume_name, "storageClassName": "standard",
                "resources": { "requests": { "storage": "1Gi" } } } }))
        .unwrap()
    }

    #[test]
    fn a_claim_gets_a_volume_once_it_is_this_provisioners_turn() {
        let annotations = json!({ STORAGE_PROVISIONER[0]: PROVISIONER });
        let placed = json!({ STORAGE_PROVISIONER[0]: PROVISIONER, SELECTED_NODE: "n" });
        for (what, claim, mode, expected) in [
            ("at once", claim(annotations.clone(), ""), "Immediate", true),
            ("no pod yet", claim(annotations.clone(), ""), "WaitForFirstConsumer", false),
            ("a pod has its node", claim(placed, ""), "WaitForFirstConsumer", true),
            ("the binder has not spoken", claim(json!({}), ""), "Immediate", false),
            ("it has a volume", claim(annotations, "v"), "Immediate", false),
        ] {
            assert_eq!(wants(&claim, &class(mode)), expected, "{what}");
        }
        let foreign = StorageClass { provisioner: "example.com/other".into(), ..class("Immediate") };
        assert!(!wants(&claim(json!({ STORAGE_PROVISIONER[0]: PROVISIONER }), ""), &foreign));
    }

    #[test]
    fn a_volume_is_what_its_claim_asked_for() {
        let volume = volume(&claim(json!({}), ""), &class("Immediate")).unwrap();
        assert_eq!(volume.metadata.name.as_deref(), Some("pvc-u"));
        let spec = json!(volume.spec);
        assert_eq!(
            spec,
            json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "standard", "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c",
                    "uid": "u", "resourceVersion": "7" },
                "csi": { "driver": PROVISIONER, "volumeHandle": "pvc-u" } })
        );
    }
}
