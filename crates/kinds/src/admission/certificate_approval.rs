//! CertificateApproval: who approves a certificate request may approve for its signer.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use super::signer_rights;
use crate::access::text;

/// Refuses an approval or denial by a user without the right.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    _: &Value,
) -> Result<Vec<String>, Status> {
    if !request.is_for_part("certificates.k8s.io", "certificatesigningrequests", "approval") {
        return Ok(Vec::new());
    }
    let signer = request.old.map(|old| text(old, "spec.signerName")).unwrap_or_default();
    if !signer_rights::allows(cluster, "approve", signer) {
        let why = format!("user not permitted to approve requests with signerName \"{signer}\"");
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
    fn an_approver_may_approve_for_the_signer_or_its_domain() {
        let old = json!({ "spec": { "signerName": "a.b/c" } });
        for (right, may) in [
            (vec!["approve signers a.b/c"], true),
            (vec!["approve signers a.b/*"], true),
            (vec!["approve signers a.b/d", "sign signers a.b/c"], false),
        ] {
            let cluster = Objects { allowed: right.clone(), ..Objects::new("", Vec::new()) };
            let resource = "certificatesigningrequests/approval";
            let judged = with_request("certificates.k8s.io", resource, Some(&old), |request| {
                validate(request, &cluster, &old)
            });
            assert_eq!(judged.is_ok(), may, "{right:?}");
        }
    }
}
