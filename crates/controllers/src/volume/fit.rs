//! Which volume fits a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::class::{of_claim, of_volume};
use super::name_of;
use crate::object::quantity;
use crate::object::selector::{self, Labels};
use crate::placement::affinity;

const STORAGE: &str = "storage";
/// Default volume mode of claims and volumes.
const FILESYSTEM: &str = "Filesystem";

type Amounts = Option<BTreeMap<String, Quantity>>;

/// The place in which the volume is needed.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Wherever it is.
    Anywhere,
    /// Unknown until a pod has its node: only a volume that asks for the claim fits.
    Undecided,
    /// On the node with these labels.
    Node(&'a Labels),
}

/// Whether the volume asks for this very claim.
pub fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(wanted) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return false };
    let is_any = wanted.uid.as_ref().is_none_or(String::is_empty);
    wanted.name == claim.metadata.name
        && wanted.namespace == claim.metadata.namespace
        && (is_any || wanted.uid == claim.metadata.uid)
}

/// Whether a pod on a node with these labels can use the volume.
pub fn reaches(volume: &PersistentVolume, node: &Labels) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| affinity::selects(required, "", node))
}

/// The volume for a claim, wherever it is: one with as few access modes as possible, then the smallest.
pub fn best<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &'a [Arc<PersistentVolume>],
    place: Place<'_>,
) -> Option<&'a PersistentVolume> {
    let mut by_modes = BTreeMap::<(usize, BTreeSet<&str>), Vec<&PersistentVolume>>::new();
    let is_free = |volume: &&Arc<PersistentVolume>| is_open(volume) || is_bound_to(volume, claim);
    for volume in volumes.iter().filter(is_free).filter(|volume| offers_modes(volume, claim)) {
        let modes: BTreeSet<&str> = modes_of(volume).collect();
        by_modes.entry((modes.len(), modes)).or_default().push(volume);
    }
    by_modes.into_values().find_map(|alike| find(claim, alike, place, &BTreeSet::new()))
}

/// The volume among these that asks for the claim, else the smallest that fits. None if the one that asks for the claim
/// is out of the node's reach.
pub fn find<'a>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'a PersistentVolume>,
    place: Place<'_>,
    taken: &BTreeSet<String>,
) -> Option<&'a PersistentVolume> {
    let reachable = |volume: &PersistentVolume| match place {
        Place::Node(labels) => reaches(volume, labels),
        Place::Anywhere | Place::Undecided => true,
    };
    let mut smallest: Option<(&PersistentVolume, i128)> = None;
    for volume in volumes {
        if taken.contains(name_of(&volume.metadata)) || mismatch(volume, claim).is_some() {
            continue;
        }
        if is_bound_to(volume, claim) {
            return Some(volume).filter(|volume| reachable(volume));
        }
        let size = capacity_of(volume);
        if is_open(volume)
            && !matches!(place, Place::Undecided)
            && is_selected(volume, claim)
            && of_volume(volume) == of_claim(claim)
            && offers_modes(volume, claim)
            && reachable(volume)
            && smallest.is_none_or(|(_, least)| size < least)
        {
            smallest = Some((volume, size));
        }
    }
    smallest.map(|(volume, _)| volume)
}

/// Whether a claim that names no volume could have this one. A cheap check: [`best`] decides.
pub fn could_have(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    is_open(volume)
        && mismatch(volume, claim).is_none()
        && is_selected(volume, claim)
        && of_volume(volume) == of_claim(claim)
        && offers_modes(volume, claim)
}

/// Returns the reason why a claim cannot have the volume that it names.
pub fn objection(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.metadata.deletion_timestamp.is_some() {
        return Some(format!("the volume is marked for deletion {:?}", name_of(&volume.metadata)));
    }
    let text = match mismatch(volume, claim) {
        Some(Mismatch::Size) => "requested PV is too small",
        _ if of_volume(volume) != of_claim(claim) => "storageClassName does not match",
        Some(Mismatch::Attributes) => "volumeAttributesClassName does not match",
        Some(Mismatch::Mode) => "incompatible volumeMode",
        _ if !offers_modes(volume, claim) => "incompatible accessMode",
        _ => return None,
    };
    Some(text.to_owned())
}

/// A permanent mismatch between a volume and a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mismatch {
    Size,
    Attributes,
    Mode,
    Leaving,
}

fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Mismatch> {
    let (have, want) = (volume.spec.as_ref(), claim.spec.as_ref());
    let have_attributes = have.and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let want_attributes = want.and_then(|spec| spec.volume_attributes_class_name.as_deref());
    if capacity_of(volume) < request_of(claim) {
        Some(Mismatch::Size)
    } else if have_attributes.unwrap_or_default() != want_attributes.unwrap_or_default() {
        Some(Mismatch::Attributes)
    } else if differ_in_mode(volume, claim) {
        Some(Mismatch::Mode)
    } else {
        volume.metadata.deletion_timestamp.as_ref().map(|_| Mismatch::Leaving)
    }
}

/// Whether one is a file system and the other a device.
pub fn differ_in_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let have = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    let want = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    have.unwrap_or(FILESYSTEM) != want.unwrap_or(FILESYSTEM)
}

/// Whether the volume waits for a claim, whichever it be.
fn is_open(volume: &PersistentVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    let claimed = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
    phase == Some("Available") && !claimed
}

fn is_selected(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    wanted.is_none_or(|wanted| selector::matches(wanted, volume.metadata.labels.as_ref()))
}

fn modes_of(volume: &PersistentVolume) -> impl Iterator<Item = &str> {
    volume.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten()).map(String::as_str)
}

fn offers_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let wanted = claim.spec.iter().flat_map(|spec| spec.access_modes.iter().flatten());
    let modes: BTreeSet<&str> = modes_of(volume).collect();
    wanted.into_iter().all(|mode| modes.contains(mode.as_str()))
}

fn capacity_of(volume: &PersistentVolume) -> i128 {
    storage(volume.spec.as_ref().map_or(&None, |spec| &spec.capacity))
}

/// Returns the size that a claim asks for, in billionths of a byte.
pub fn request_of(claim: &PersistentVolumeClaim) -> i128 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    storage(resources.map_or(&None, |resources| &resources.requests))
}

fn storage(amounts: &Amounts) -> i128 {
    let amount = amounts.as_ref().and_then(|amounts| amounts.get(STORAGE));
    amount.map_or(0, |amount| quantity::nanos(&amount.0))
}
