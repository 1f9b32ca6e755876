//! Maps a change to the objects that it concerns.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use setpoint::informer::{Index, Lister};
use setpoint::predicate::Change;
use setpoint::{Key, Manager, Object};

use super::class::named_by;
use super::fit::could_have;

/// Finds volumes by the claim that they name.
const BY_CLAIM: &str = "claim";
/// Finds claims by the volume that they name.
const BY_VOLUME: &str = "volume";

/// The claims of a cluster, by their volumes.
pub(super) fn claims(manager: &Manager) -> Lister<PersistentVolumeClaim> {
    let informer = manager.informer::<PersistentVolumeClaim>();
    // A second manager's controller finds it there.
    let _ = informer.add_index(Index::by_path(BY_VOLUME, "spec.volumeName"));
    informer.lister()
}

/// The volumes of a cluster, by their claims.
pub(super) fn volumes(manager: &Manager) -> Lister<PersistentVolume> {
    let informer = manager.informer::<PersistentVolume>();
    let index =
        Index::new(BY_CLAIM, |volume| claimed(volume).map(|key| key.to_string()).into_iter().collect());
    // As above.
    let _ = informer.add_index(index);
    informer.lister()
}

/// The claim that a volume names.
pub(crate) fn claimed(volume: &Object) -> Option<Key> {
    let name = volume.path("spec.claimRef.name").filter(|name| !name.is_empty())?;
    Some(Key::new(volume.path("spec.claimRef.namespace").as_deref(), &name))
}

/// Returns the claims that a volume names or named, the claims that name it, and the claims that could have it.
pub(super) fn of_volume(change: &Change<'_>, claims: &Lister<PersistentVolumeClaim>) -> Vec<Key> {
    let Some(volume) = change.object() else { return Vec::new() };
    let both = change.old.into_iter().chain(change.new);
    let mut requests: Vec<Key> = both.filter_map(claimed).collect();
    let naming = claims.by_index(BY_VOLUME, volume.name()).unwrap_or_default();
    requests.extend(naming.iter().map(|claim| request(claim)));
    let is_open = change.new.is_some_and(|new| {
        claimed(new).is_none() && new.path("status.phase").as_deref() == Some("Available")
    });
    if is_open && let Ok(volume) = volume.decode::<PersistentVolume>() {
        let waiting = waiting(claims, |claim| could_have(&volume, claim));
        requests.extend(waiting);
    }
    requests
}

/// The claims that wait for a class of this name, or for a default one.
pub(super) fn of_class(change: &Change<'_>, claims: &Lister<PersistentVolumeClaim>) -> Vec<Key> {
    let Some(class) = change.new else { return Vec::new() };
    waiting(claims, |claim| named_by(claim).is_none_or(|named| named == class.name()))
}

fn waiting(
    claims: &Lister<PersistentVolumeClaim>,
    concerned: impl Fn(&PersistentVolumeClaim) -> bool,
) -> Vec<Key> {
    let is_free = |claim: &PersistentVolumeClaim| {
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_none_or(String::is_empty)
    };
    let all = claims.list().unwrap_or_default();
    all.iter().filter(|claim| is_free(claim) && concerned(claim)).map(|claim| request(claim)).collect()
}

fn request(claim: &PersistentVolumeClaim) -> Key {
    let meta = &claim.metadata;
    Key::namespaced(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The volumes that name a claim or that it names, when it comes, goes or changes its volume.
pub(super) fn of_claim(change: &Change<'_>, volumes: &Lister<PersistentVolume>) -> Vec<Key> {
    let named = |claim: &Object| claim.path("spec.volumeName").filter(|name| !name.is_empty());
    if change.update().is_some_and(|(old, new)| old.uid() == new.uid() && named(old) == named(new)) {
        return Vec::new();
    }
    let Some(claim) = change.object() else { return Vec::new() };
    let both = change.old.into_iter().chain(change.new);
    let mut names: Vec<String> = both.filter_map(named).collect();
    let naming = volumes.by_index(BY_CLAIM, claim.key().as_str()).unwrap_or_default();
    names.extend(naming.iter().filter_map(|volume| volume.metadata.name.clone()));
    names.iter().map(|name| Key::cluster(name)).collect()
}
