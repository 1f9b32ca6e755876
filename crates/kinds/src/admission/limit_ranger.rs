//! LimitRanger: pods get what they did not ask for, and pods and claims stay within bounds.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::text;
use crate::limits;

/// The ranges that a write of this object must mind. Containers of a pod change by a resize alone, and an object that is
/// being deleted is left alone.
fn ranges(request: &Request<'_>, cluster: &dyn Cluster) -> Vec<Value> {
    let concerned = match (request.group, request.resource, request.subresource) {
        ("", "pods", "") => request.creates(),
        ("", "pods", "resize") => !request.creates(),
        ("", "persistentvolumeclaims", "") => true,
        _ => false,
    };
    let is_terminating = |old: &Value| !text(old, "metadata.deletionTimestamp").is_empty();
    if !concerned || request.old.is_some_and(is_terminating) {
        return Vec::new();
    }
    cluster.list("", "limitranges", request.namespace)
}

/// Gives the containers of a pod what they lack.
pub(super) fn mutate(request: &Request<'_>, cluster: &dyn Cluster, object: &mut Value) -> Result<(), Status> {
    if request.resource == "pods" {
        for range in ranges(request, cluster) {
            limits::fill(&range, object);
        }
    }
    Ok(())
}

/// Refuses what is out of bounds.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    object: &Value,
) -> Result<Vec<String>, Status> {
    let refuse = if request.resource == "pods" { limits::refuse_pod } else { limits::refuse_claim };
    let refused = ranges(request, cluster).iter().find_map(|range| refuse(range, object));
    refused.map_or(Ok(Vec::new()), |why| Err(request.forbidden(&why)))
}
