//! StorageObjectInUseProtection: volumes, claims and attribute classes stay until nothing uses them.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{items, set};

/// Adds the finalizer that a controller removes when nothing uses the object.
pub(super) fn mutate(request: &Request<'_>, _: &dyn Cluster, object: &mut Value) -> Result<(), Status> {
    if !request.creates() {
        return Ok(());
    }
    let finalizer = match (request.group, request.resource, request.subresource) {
        ("", "persistentvolumeclaims", "") => "kubernetes.io/pvc-protection",
        ("", "persistentvolumes", "") => "kubernetes.io/pv-protection",
        ("storage.k8s.io", "volumeattributesclasses", "") => "kubernetes.io/vac-protection",
        _ => return Ok(()),
    };
    let mut finalizers = items(object, "metadata.finalizers").to_vec();
    if !finalizers.iter().any(|one| one == finalizer) {
        finalizers.push(finalizer.into());
        set(object, "metadata.finalizers", Value::Array(finalizers));
    }
    Ok(())
}
