//! Decides the next step for a volume.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::{Notice, PROVISIONED_BY, annotation, fit, name_of};

/// The next step for a volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to do: the claim is bound to it, or is about to be.
    Leave,
    /// The volume gets this phase.
    Phase(&'static str),
    /// The claim is gone: the volume is released, and its reclaim policy decides.
    Release,
    /// The volume becomes available again: its claim has another volume.
    Unbind,
    /// The volume asks for a claim that does not fit. Both get an event.
    Mismatch { volume: Notice, claim: Notice },
}

/// Returns the next step for a volume. `claim` is the claim that the volume names, by uid if it has one.
pub(super) fn step(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let wanted = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let is_certain = wanted.is_some_and(|wanted| wanted.uid.as_ref().is_some_and(|uid| !uid.is_empty()));
    if !is_certain {
        return Step::Phase("Available");
    }
    let Some(claim) = claim else { return Step::Release };
    let name = name_of(&volume.metadata);
    match claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default() {
        "" if fit::differ_in_mode(volume, claim) => {
            let reason = "VolumeMismatch";
            let asked = name_of(&claim.metadata);
            let volume = format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {asked:?} due to incompatible volumeMode."
            );
            let claim = format!(
                "Cannot bind PersistentVolume {name:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
            );
            Step::Mismatch { volume: Notice::warning(reason, volume), claim: Notice::warning(reason, claim) }
        }
        "" => Step::Leave,
        bound if bound == name => Step::Phase("Bound"),
        _ if annotation(&volume.metadata, PROVISIONED_BY).is_some() && policy(volume) == "Delete" => {
            Step::Release
        }
        _ => Step::Unbind,
    }
}

/// The reclaim policy.
pub(super) fn policy(volume: &PersistentVolume) -> &str {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or_default()
}

/// Whether the volume was released before.
pub(super) fn is_released(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Released" | "Failed"))
}

/// Returns the failure of a released volume whose policy nothing here can carry out. A volume with a provisioner is
/// left to that provisioner.
pub(super) fn failure(volume: &PersistentVolume) -> Option<Notice> {
    match policy(volume) {
        "Retain" => None,
        "Recycle" => Some(Notice::warning("VolumeFailedRecycle", "No recycler plugin found for the volume!")),
        "Delete" => undeletable(volume).map(|why| Notice::warning("VolumeFailedDelete", why)),
        _ => {
            let message = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            Some(Notice::warning("VolumeUnknownReclaimPolicy", message))
        }
    }
}

fn undeletable(volume: &PersistentVolume) -> Option<String> {
    match annotation(&volume.metadata, PROVISIONED_BY).filter(|by| !by.is_empty()) {
        Some(by) if by.starts_with("kubernetes.io/") => Some(format!("no volume plugin matched name: {by}")),
        Some(_) => None,
        None if volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some()) => None,
        None => {
            let name = name_of(&volume.metadata);
            Some(format!(
                "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
            ))
        }
    }
}
