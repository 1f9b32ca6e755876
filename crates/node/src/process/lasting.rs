//! PersistentVolumes of process pods. Each is a folder, made for the first pod that uses it and removed with the
//! volume.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use kube::ResourceExt;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Predicate, Reconciler, SetupError};

use super::own_folder;

/// Returns the folder that holds the folders of all volumes of `node`.
fn home(node: &Path) -> PathBuf {
    node.join("volumes")
}

/// Returns the folder of a volume, or `None` if its name is not a valid folder name.
pub fn folder(node: &Path, volume: &str) -> Option<PathBuf> {
    own_folder::is_name(volume).then(|| home(node).join(volume))
}

/// Creates the folder of a volume.
///
/// # Errors
/// When the name is invalid, or the disk refuses.
pub fn make(node: &Path, volume: &str) -> io::Result<()> {
    let folder = folder(node, volume).ok_or(io::ErrorKind::InvalidInput)?;
    own_folder::make(&home(node))?;
    fs::create_dir_all(folder)
}

/// Returns the name of the claim behind a pod's volume.
pub fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let made = || format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
    let given = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    given.or_else(|| volume.ephemeral.as_ref().map(|_| made()))
}

/// The reason why a claim gives a pod no volume, in a kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbound {
    /// The claim names a volume, but the controller has not bound them.
    #[error("PVC is not bound")]
    Phase,
    /// The claim is not the pod's own.
    #[error("PVC {0} was not created for the pod: the pod is not owner")]
    Owner(String),
    /// The volume does not exist.
    #[error("failed to fetch PV {0} from API server: not found")]
    Missing(String),
    /// The volume names no claim.
    #[error(
        "found PV object {0} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
    )]
    Free(String),
    /// The volume belongs to another claim.
    #[error("found PV object {name} but its pv.Spec.ClaimRef.UID {theirs} does not point to claim.UID {own}")]
    Taken {
        /// The volume.
        name: String,
        /// The uid in the volume.
        theirs: String,
        /// The claim's uid.
        own: String,
    },
    /// The volume's name would lead elsewhere.
    #[error("{0:?} is no name of a PersistentVolume")]
    Name(String),
}

/// Returns the volume that a claim names, if any.
pub fn volume_name(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.volume_name.as_deref().filter(|name| !name.is_empty())
}

/// Checks that a claim's volume belongs to the claim. Everybody who may create claims writes `spec.volumeName`. Only
/// the controller writes the phase and the volume's `claimRef`.
///
/// # Errors
/// The reason why the pod may not use the volume.
pub fn bound(
    claim: &PersistentVolumeClaim,
    name: &str,
    volume: Option<&PersistentVolume>,
) -> Result<String, Unbound> {
    if !own_folder::is_name(name) {
        return Err(Unbound::Name(name.to_owned()));
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err(Unbound::Phase);
    }
    let volume = volume.ok_or_else(|| Unbound::Missing(name.to_owned()))?;
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let reference = reference.ok_or_else(|| Unbound::Free(name.to_owned()))?;
    let (theirs, own) = (reference.uid.clone().unwrap_or_default(), claim.uid().unwrap_or_default());
    if own.is_empty() || theirs != own {
        return Err(Unbound::Taken { name: name.to_owned(), theirs, own });
    }
    Ok(name.to_owned())
}

/// Checks that the claim of an ephemeral volume was created for the pod.
///
/// # Errors
/// When it was created for another owner.
pub fn owned(pod: &Pod, volume: &Volume, claim: &PersistentVolumeClaim) -> Result<(), Unbound> {
    let uid = pod.uid();
    let is_pod = || claim.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref());
    match volume.ephemeral.is_none() || is_pod() {
        true => Ok(()),
        false => Err(Unbound::Owner(claim.name_any())),
    }
}

/// Removes the folders of deleted volumes, also of those that were deleted while no node ran here.
pub fn register(manager: &Manager, node: &Path) -> Result<(), SetupError> {
    let handle = Controller::for_kind::<PersistentVolume>(manager)
        .with_predicate(Predicate::new(|change| change.new.is_none()))
        .named("volume-folders")
        .without_leader_election()
        .register(Folders { node: node.to_path_buf() })?;
    let left = fs::read_dir(home(node)).into_iter().flatten().flatten();
    for entry in left {
        handle.enqueue(&Key::cluster(&entry.file_name().to_string_lossy()));
    }
    Ok(())
}

struct Folders {
    node: PathBuf,
}

impl Reconciler for Folders {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let Some(folder) = folder(&self.node, key.name()) else { return Ok(Action::done()) };
        if ctx.client().get::<PersistentVolume>(&key).await?.is_none() {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Action::done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(volume: &str, phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "c", "uid": "u"},
            "spec": {"volumeName": volume}, "status": {"phase": phase}}))
        .unwrap()
    }

    fn volume(spec: serde_json::Value) -> PersistentVolume {
        serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap()
    }

    #[test]
    fn only_a_volume_that_names_the_claim_is_the_claims() {
        let (ours, theirs) =
            (volume(json!({"claimRef": {"uid": "u"}})), volume(json!({"claimRef": {"uid": "w"}})));
        let free = volume(json!({}));
        let answer = |name: &str, phase: &str, volume| bound(&claim(name, phase), name, volume);
        assert_eq!(answer("v", "Bound", Some(&ours)).unwrap(), "v");
        assert_eq!(answer("v", "Pending", Some(&ours)).unwrap_err(), Unbound::Phase);
        assert_eq!(answer("v", "Bound", None).unwrap_err(), Unbound::Missing("v".into()));
        assert_eq!(answer("v", "Bound", Some(&free)).unwrap_err(), Unbound::Free("v".into()));
        let taken = "found PV object v but its pv.Spec.ClaimRef.UID w does not point to claim.UID u";
        assert_eq!(answer("v", "Bound", Some(&theirs)).unwrap_err().to_string(), taken);
        for name in ["/etc", "../../etc", "..", "a/b"] {
            assert_eq!(answer(name, "Bound", Some(&ours)).unwrap_err(), Unbound::Name(name.into()));
            assert_eq!(folder(Path::new("/node"), name), None);
        }
    }

    #[test]
    fn an_ephemeral_volume_is_of_its_own_pod() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "uid": "p1"}})).unwrap();
        let volume: Volume = serde_json::from_value(json!({"name": "v", "ephemeral": {}})).unwrap();
        let mut claim = claim("v", "Bound");
        assert_eq!(owned(&pod, &volume, &claim).unwrap_err(), Unbound::Owner("c".into()));
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p1"}]);
        claim.metadata.owner_references = serde_json::from_value(owner).unwrap();
        assert_eq!(owned(&pod, &volume, &claim), Ok(()));
    }
}
