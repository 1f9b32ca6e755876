//! Decides the next step for a claim.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;

use super::fit::{self, Place, is_bound_to};
use super::{BIND_COMPLETED, Notice, SELECTED_NODE, annotation, class, name_of};

/// Prefix of in-tree provisioners, which do not exist here.
const IN_TREE: &str = "kubernetes.io/";

/// The next step for a claim.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// The claim and this volume belong together.
    Bind(&'a PersistentVolume),
    /// The claim gets the default class, which did not exist at its creation.
    Assign(&'a str),
    /// This provisioner should make a volume for the claim.
    Provision(&'a str),
    /// The claim waits for a pod that uses it.
    AwaitConsumer,
    /// The claim waits, for the reason in the event.
    Wait(Option<Notice>),
    /// The claim has lost its volume.
    Lost(Notice),
}

/// Returns the next step for a claim, given the volumes and classes.
pub(super) fn step<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    classes: &'a [Arc<StorageClass>],
) -> Step<'a> {
    let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    let volume = volumes.iter().map(|volume| &**volume).find(|volume| name_of(&volume.metadata) == named);
    match (annotation(&claim.metadata, BIND_COMPLETED).is_some(), named) {
        (true, "") => Step::Lost(Notice::warning(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        )),
        (true, _) => bound(claim, volume),
        (false, "") => unbound(claim, volumes, classes),
        (false, _) => choosy(claim, volume),
    }
}

fn bound<'a>(claim: &PersistentVolumeClaim, volume: Option<&'a PersistentVolume>) -> Step<'a> {
    let Some(volume) = volume else {
        let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return Step::Lost(Notice::warning("ClaimLost", message));
    };
    let holder = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if holder.is_none_or(|holder| holder.uid == claim.metadata.uid) {
        return Step::Bind(volume);
    }
    let message = "Two claims are bound to the same volume, this one is bound incorrectly";
    Step::Lost(Notice::warning("ClaimMisbound", message))
}

/// A claim that names its volume.
fn choosy<'a>(claim: &PersistentVolumeClaim, volume: Option<&'a PersistentVolume>) -> Step<'a> {
    let Some(volume) = volume else { return Step::Wait(None) };
    let name = name_of(&volume.metadata);
    let is_free = volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
    if is_free {
        return match fit::objection(volume, claim) {
            None => Step::Bind(volume),
            Some(why) => {
                let message = format!("Cannot bind to requested volume {name:?}: {why}");
                Step::Wait(Some(Notice::warning("VolumeMismatch", message)))
            }
        };
    }
    if is_bound_to(volume, claim) {
        return Step::Bind(volume);
    }
    let message = format!("volume {name:?} already bound to a different claim.");
    Step::Wait(Some(Notice::warning("FailedBinding", message)))
}

fn unbound<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    classes: &'a [Arc<StorageClass>],
) -> Step<'a> {
    let delayed = class::delays_binding(claim, classes);
    let place = if delayed { Place::Undecided } else { Place::Anywhere };
    if let Some(volume) = fit::best(claim, volumes, place) {
        return Step::Bind(volume);
    }
    let named = class::named_by(claim);
    if named.is_none()
        && let Some(default) = class::default_of(classes)
    {
        return Step::Assign(default);
    }
    if delayed && annotation(&claim.metadata, SELECTED_NODE).is_none() {
        return Step::AwaitConsumer;
    }
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return Step::Wait(Some(Notice::normal("FailedBinding", message)));
    };
    let failed = |message: String| Step::Wait(Some(Notice::warning("ProvisioningFailed", message)));
    match class::find(classes, named).map(|class| class.provisioner.as_str()) {
        None => failed(format!("storageclass.storage.k8s.io {named:?} not found")),
        Some(name) if name.starts_with(IN_TREE) => failed(format!("no volume plugin matched name: {name}")),
        Some(provisioner) => Step::Provision(provisioner),
    }
}

/// Returns the event for a claim that waits for its first consumer, given its unscheduled pods.
pub(super) fn awaited(pods: &[String]) -> Notice {
    match pods {
        [] => {
            Notice::normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        }
        [pod] => Notice::normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => Notice::normal(
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    }
}
