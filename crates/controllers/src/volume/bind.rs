//! The writes of a binding as merge patches, in this order: the volume's claim, the volume's phase, the claim's
//! volume, the claim's status. A write that is done already is `None`.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, STORAGE_PROVISIONER, annotation, fit::is_bound_to, name_of,
};

/// Writes the claim onto the volume.
pub(crate) fn claim_ref(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Value> {
    let asked = is_bound_to(volume, claim);
    let present = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let mut patch = json!({});
    if !asked || present.is_none_or(|present| present.uid != claim.metadata.uid) {
        patch["spec"] = json!({ "claimRef": reference(claim) });
    }
    if !asked && annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_none() {
        patch["metadata"] = json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } });
    }
    (patch != json!({})).then_some(patch)
}

/// A claim as volumes refer to it.
pub(super) fn reference(claim: &PersistentVolumeClaim) -> Value {
    let meta = &claim.metadata;
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name,
        "uid": meta.uid, "resourceVersion": meta.resource_version })
}

/// Sets the phase of the volume.
pub(super) fn phase(volume: &PersistentVolume, phase: &str, message: Option<&str>) -> Option<Value> {
    let present = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    (present != Some(phase)).then(|| json!({ "status": { "phase": phase, "message": message } }))
}

/// Writes the volume onto the claim.
pub(super) fn volume_name(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let name = name_of(&volume.metadata);
    let present = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    let mut patch = json!({});
    let mut annotate = |key: &str| patch["metadata"]["annotations"][key] = json!("yes");
    if annotation(&claim.metadata, BIND_COMPLETED).is_none() {
        annotate(BIND_COMPLETED);
    }
    if present != name {
        if annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_none() {
            annotate(BOUND_BY_CONTROLLER);
        }
        patch["spec"] = json!({ "volumeName": name });
    }
    (patch != json!({})).then_some(patch)
}

/// Writes the bound volume into the claim's status.
pub(super) fn claim_status(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Option<Value> {
    let status = claim.status.clone().unwrap_or_default();
    let mut after = status.clone();
    after.phase = Some(phase.to_owned());
    let spec = volume.and_then(|volume| volume.spec.as_ref());
    after.access_modes = spec.and_then(|spec| spec.access_modes.clone());
    // Later the capacity is the resizer's to say.
    if volume.is_none() || status.phase.as_deref() != Some(phase) {
        after.capacity = spec.and_then(|spec| spec.capacity.clone());
    }
    if volume.is_none() || (status.phase.as_deref() == Some("Pending") && phase == "Bound") {
        let class = spec.and_then(|spec| spec.volume_attributes_class_name.clone());
        after.current_volume_attributes_class_name = class;
    }
    (after != status).then(|| {
        json!({ "status": { "phase": after.phase, "accessModes": after.access_modes, "capacity": after.capacity,
            "currentVolumeAttributesClassName": after.current_volume_attributes_class_name } })
    })
}

/// Removes the claim from the volume again. A claim that the volume asked for itself stays.
pub(super) fn unbound(volume: &PersistentVolume) -> Value {
    match annotation(&volume.metadata, BOUND_BY_CONTROLLER) {
        Some(_) => json!({ "spec": { "claimRef": null },
            "metadata": { "annotations": { BOUND_BY_CONTROLLER: null } } }),
        None => json!({ "spec": { "claimRef": { "uid": null } } }),
    }
}

/// Writes the provisioner onto the claim.
pub(super) fn provisioner(claim: &PersistentVolumeClaim, name: &str) -> Option<Value> {
    let [present, old] = STORAGE_PROVISIONER;
    let said = annotation(&claim.metadata, present) == Some(name);
    (!said).then(|| json!({ "metadata": { "annotations": { present: name, old: name } } }))
}
