//! CertificateSigning: who puts a certificate into a request may sign for its signer.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use super::signer_rights;
use crate::access::{at, items, text};

/// Refuses a certificate, or other conditions, by a user without the right.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    object: &Value,
) -> Result<Vec<String>, Status> {
    let concerned = request.is_for_part("certificates.k8s.io", "certificatesigningrequests", "status");
    let Some(old) = request.old.filter(|_| concerned) else { return Ok(Vec::new()) };
    let same_certificate = at(old, "status.certificate") == at(object, "status.certificate");
    if same_certificate && items(old, "status.conditions") == items(object, "status.conditions") {
        return Ok(Vec::new());
    }
    let signer = text(old, "spec.signerName");
    if !signer_rights::allows(cluster, "sign", signer) {
        let why = format!("user not permitted to sign requests with signerName \"{signer}\"");
        return Err(request.forbidden(&why));
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_signer_may_sign() {
        let old = json!({ "spec": { "signerName": "a.b/c" }, "status": {} });
        let with = |status: Value| json!({ "spec": { "signerName": "a.b/c" }, "status": status });
        for (right, new, may) in [
            (vec![], with(json!({ "certificate": "x" })), false),
            (vec![], with(json!({ "conditions": [{ "type": "Failed" }] })), false),
            (vec![], with(json!({ "other": 1 })), true),
            (vec!["approve signers a.b/c"], with(json!({ "certificate": "x" })), false),
            (vec!["sign signers a.b/*"], with(json!({ "certificate": "x" })), true),
        ] {
            let cluster = Objects { allowed: right, ..Objects::new("", Vec::new()) };
            let resource = "certificatesigningrequests/status";
            let judged = with_request("certificates.k8s.io", resource, Some(&old), |request| {
                validate(request, &cluster, &new)
            });
            assert_eq!(judged.is_ok(), may, "{new}");
        }
    }
}
