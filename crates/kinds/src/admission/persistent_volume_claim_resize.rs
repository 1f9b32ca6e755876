//! PersistentVolumeClaimResize: a claim grows only if its class allows it.

use serde_json::Value;
use setpoint_api::quantity::Quantity;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{at, text, truth};

/// Refuses a claim that asks for more than before.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    claim: &Value,
) -> Result<Vec<String>, Status> {
    let Some(old) = request.old.filter(|_| request.is_for("", "persistentvolumeclaims")) else {
        return Ok(Vec::new());
    };
    let size = |claim| Quantity::from_json(at(claim, "spec.resources.requests.storage")).ok();
    if size(claim) <= size(old) {
        return Ok(Vec::new());
    }
    if text(old, "status.phase") != "Bound" {
        return Err(request.forbidden("Only bound persistent volume claims can be expanded"));
    }
    let name = class(claim);
    let stored = cluster.get("storage.k8s.io", "storageclasses", "", name);
    let grows = stored.is_some_and(|stored| truth(&stored, "allowVolumeExpansion"));
    if name.is_empty() || name != class(old) || !grows {
        return Err(request.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
             resize",
        ));
    }
    Ok(Vec::new())
}

/// The class of a claim: the annotation that preceded the field still counts.
fn class(claim: &Value) -> &str {
    let annotation = at(claim, "metadata.annotations").get("volume.beta.kubernetes.io/storage-class");
    annotation.and_then(Value::as_str).unwrap_or_else(|| text(claim, "spec.storageClassName"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_claim_grows_if_its_class_allows_it() {
        let class =
            |name: &str, grows: Value| json!({ "metadata": { "name": name }, "allowVolumeExpansion": grows });
        let classes = vec![class("grows", json!(true)), class("stays", json!(false))];
        let cluster = Objects::new("storageclasses", classes);
        let claim = |class: &str, size: &str, phase: &str| json!({ "spec": { "storageClassName": class, "resources": { "requests": { "storage": size } } }, "status": { "phase": phase } });
        for (old, new, why) in [
            (claim("grows", "1Gi", "Bound"), claim("grows", "2Gi", "Bound"), ""),
            (claim("stays", "1Gi", "Bound"), claim("stays", "1024Mi", "Bound"), ""),
            (claim("grows", "1Gi", "Pending"), claim("grows", "2Gi", "Pending"), "Only bound"),
            (claim("stays", "1Gi", "Bound"), claim("stays", "2Gi", "Bound"), "only dynamically provisioned"),
            (claim("none", "1Gi", "Bound"), claim("none", "2Gi", "Bound"), "only dynamically provisioned"),
            (claim("", "1Gi", "Bound"), claim("", "2Gi", "Bound"), "only dynamically provisioned"),
            (claim("stays", "1Gi", "Bound"), claim("grows", "2Gi", "Bound"), "only dynamically provisioned"),
        ] {
            let judged = with_request("", "persistentvolumeclaims", Some(&old), |request| {
                validate(request, &cluster, &new)
            });
            let refused = judged.err().map(|status| status.message).unwrap_or_default();
            assert!(refused.contains(why) && refused.is_empty() == why.is_empty(), "{new}: {refused}");
        }
    }
}
