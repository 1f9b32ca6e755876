//! DefaultStorageClass: a claim without a class gets the default class.

use serde_json::Value;
use setpoint_api::status::Status;

use super::default_class::{Class, fill};
use super::request::{Cluster, Request};

pub(super) const CLASS: Class = Class {
    group: "storage.k8s.io",
    resource: "storageclasses",
    field: "spec.storageClassName",
    old_annotation: "volume.beta.kubernetes.io/storage-class",
    default_annotations: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
};

/// Names the class of a new claim.
pub(super) fn mutate(request: &Request<'_>, cluster: &dyn Cluster, claim: &mut Value) -> Result<(), Status> {
    if request.is_for("", "persistentvolumeclaims") && request.creates() {
        fill(claim, cluster, &CLASS);
    }
    Ok(())
}
