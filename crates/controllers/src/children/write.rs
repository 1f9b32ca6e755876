//! Writes that controllers of pods have in common.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::json;
use setpoint::{Client, ClientError, Context, DeleteOptions, Error, Key, Kind, NotFoundExt, Patch};

/// Deletes this very pod, by uid, and writes an event on its owner.
pub async fn delete_pod<K: Kind>(ctx: &Context, owner: &K, pod: &Pod) -> Result<(), ClientError> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let options = DeleteOptions::default().uid(pod.metadata.uid.clone().unwrap_or_default());
    let key = Key::new(pod.metadata.namespace.as_deref(), name);
    match ctx.client().delete_with::<Pod>(key, &options).await.ignore_not_found() {
        Ok(_) => {
            ctx.recorder().normal(owner, "SuccessfulDelete", format!("Deleted pod: {name}"));
            Ok(())
        }
        Err(error) => {
            ctx.recorder().warning(owner, "FailedDelete", format!("Error deleting: {}", error.message()));
            Err(error)
        }
    }
}

/// Writes the changed fields of an object's status. Another writer's conditions stay: if there was one, the write
/// ends in a conflict.
pub async fn status<K: Kind, S: Clone + Default + Serialize>(
    client: &Client,
    key: &Key,
    object: &K,
    before: Option<&S>,
    after: &S,
) -> Result<(), Error> {
    let before = before.cloned().unwrap_or_default();
    let patch = status_patch(object.meta(), &before, after)?;
    // The object was deleted meanwhile, so its status has no reader.
    client.patch_status::<K>(key, &patch).await.ignore_not_found()?;
    Ok(())
}

/// The patch of a status from `before`, which was read with `meta`, to `after`.
pub fn status_patch<S: Serialize>(meta: &ObjectMeta, before: &S, after: &S) -> Result<Patch, ClientError> {
    let mut patch = json!({ "metadata": { "uid": meta.uid } });
    if let Patch::Merge(difference) = Patch::merge_from(before, after)? {
        patch["status"] = difference;
    }
    Ok(Patch::Merge(patch).locked_for_lists(meta))
}
