//! Frees a pod of the finalizer by which a Job tracks it.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint::{Client, ClientError, Key, NotFoundExt, Patch};

use super::tracked::{FINALIZER, has_finalizer, uid};

/// Removes the finalizer from a pod. Does nothing if the pod is gone.
pub async fn release(client: &Client, pod: &Pod) -> Result<(), ClientError> {
    if !has_finalizer(pod) {
        return Ok(());
    }
    let patch = Patch::Strategic(json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
        "uid": uid(pod),
    } }));
    client.patch::<Pod>(key_of(pod), &patch).await.ignore_not_found()?;
    Ok(())
}

/// Returns the key of a pod.
pub fn key_of(pod: &Pod) -> Key {
    Key::new(pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref().unwrap_or_default())
}
