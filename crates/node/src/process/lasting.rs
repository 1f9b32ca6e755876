//! What is in a PersistentVolume here: a folder, made for the first pod that uses it, that goes with the volume.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use setpoint::{Action, Context, Controller, Error, Manager, Predicate, Reconciler, Request, SetupError};

/// Where the folder of a volume is, given that of the node.
pub fn folder(node: &Path, volume: &str) -> PathBuf {
    node.join("volumes").join(volume)
}

/// The claim behind a pod's volume.
pub fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let made = || format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
    let given = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    given.or_else(|| volume.ephemeral.as_ref().map(|_| made()))
}

/// The volume that a claim has.
pub fn volume_name(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.spec.as_ref()?.volume_name.clone().filter(|name| !name.is_empty())
}

/// Makes the folder stand at `place`, where the pod's other volumes are.
pub fn link(folder: &Path, place: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    match symlink(folder, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes the folders of volumes that are gone, also of those that went while no node was here.
pub fn register(manager: &Manager, node: &Path) -> Result<(), SetupError> {
    let handle = Controller::for_kind::<PersistentVolume>(manager)
        .with_predicate(Predicate::new(|change| change.new.is_none()))
        .named("volume-folders")
        .leader_elected(false)
        .run(Folders { node: node.to_path_buf() })?;
    let left = fs::read_dir(folder(node, "")).into_iter().flatten().flatten();
    for entry in left {
        handle.enqueue(&Request::cluster(&entry.file_name().to_string_lossy()));
    }
    Ok(())
}

struct Folders {
    node: PathBuf,
}

impl Reconciler for Folders {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        if ctx.client().get::<PersistentVolume>(&request).await?.is_none() {
            match fs::remove_dir_all(folder(&self.node, request.name())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::boxed(error)),
                _ => {}
            }
        }
        Ok(Action::done())
    }
}
