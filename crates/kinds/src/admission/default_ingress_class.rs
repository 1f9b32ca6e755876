//! DefaultIngressClass: an Ingress without a class gets the default class.

use serde_json::Value;
use setpoint_api::status::Status;

use super::default_class::{Class, fill};
use super::request::{Cluster, Request};

const CLASS: Class = Class {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    field: "spec.ingressClassName",
    old_annotation: "kubernetes.io/ingress.class",
    default_annotations: &["ingressclass.kubernetes.io/is-default-class"],
};

/// Names the class of a new Ingress.
pub(super) fn mutate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    ingress: &mut Value,
) -> Result<(), Status> {
    if request.is_for("networking.k8s.io", "ingresses") && request.creates() {
        fill(ingress, cluster, &CLASS);
    }
    Ok(())
}
