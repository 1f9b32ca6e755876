//! Writes that controllers of pods have in common.

use k8s_openapi::api::core::v1::Pod;
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
            ctx.recorder().warning(owner, "FailedDelete", format!("Error deleting: {error}"));
            Err(error)
        }
    }
}

/// Writes the changed fields of an object's status.
pub async fn status<K: Kind, S: Clone + Default + Serialize>(
    client: &Client,
    key: &Key,
    object: &K,
    before: Option<&S>,
    after: &S,
) -> Result<(), Error> {
    let before = before.cloned().unwrap_or_default();
    let mut patch = json!({ "metadata": { "uid": object.meta().uid } });
    if let Patch::Merge(difference) = Patch::merge_from(&before, after)? {
        patch["status"] = difference;
    }
    // The object was deleted meanwhile, so its status has no reader.
    client.patch_status::<K>(key, &Patch::Merge(patch)).await.ignore_not_found()?;
    Ok(())
}
