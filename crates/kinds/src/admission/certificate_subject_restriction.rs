//! CertificateSubjectRestriction: nobody becomes a member of `system:masters` by a certificate request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use setpoint_api::status::Status;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, parse_x509_pem};

use super::request::{Cluster, Request};
use crate::access::text;

const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses a request for a client certificate of that group.
pub(super) fn validate(
    request: &Request<'_>,
    _: &dyn Cluster,
    object: &Value,
) -> Result<Vec<String>, Status> {
    let concerned = request.is_for("certificates.k8s.io", "certificatesigningrequests");
    if !concerned || !request.creates() || text(object, "spec.signerName") != CLIENTS {
        return Ok(Vec::new());
    }
    let refused = match organizations(text(object, "spec.request")) {
        None => Some("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST".to_owned()),
        Some(groups) => groups
            .iter()
            .any(|group| group == "system:masters")
            .then(|| format!("use of {CLIENTS} signer with system:masters group is not allowed")),
    };
    refused.map_or(Ok(Vec::new()), |why| Err(request.forbidden(&why)))
}

/// The organizations of the subject; `None` if the text is no certificate request.
fn organizations(request: &str) -> Option<Vec<String>> {
    let bytes = STANDARD.decode(request).ok()?;
    let (_, pem) = parse_x509_pem(&bytes).ok()?;
    let (_, parsed) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let organizations = parsed.certification_request_info.subject.iter_organization();
    Some(organizations.filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    /// `/O=system:masters/CN=jane` and `/O=dev/CN=jane`.
    const REQUESTS: [&str; 2] = [
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIaU1JR0tBZ0VBTUNneEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRwdFlYTjBaWEp6TVEwd0N3WURWUVFEREFScQpZVzVsTUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFS0QzWG9WemU1Wi8xbFFWZGo0RFg3bEk4Ck0yeE1IU1JCZWJRWFBmN25zZmVoOStadG1IWnNmUldRTktBcDhlQXFPRVFySkcyZUFRdm9xSjA2c0dRQ2RxQUEKTUFvR0NDcUdTTTQ5QkFNQ0EwY0FNRVFDSUc5MFR6MEZXQ0NQZnFVWldTaXZuUS9oKzdOODMvOVJpTzlQbVJlMAowODdjQWlBbmhMS2hsTkpyV2FIcmEzM3BHSGV5cXhzU2JTd0Fjc0hUM0xZOFRkOTRhdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIV01IOENBUUF3SFRFTU1Bb0dBMVVFQ2d3RFpHVjJNUTB3Q3dZRFZRUUREQVJxWVc1bE1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUViZHFoaFE1aXlPcTFLSU44MHFCdmdiM3FBS3NlNlRiNnFOSkpFK3hlCnhMd0xaQ3V4N2hPQlY5dk1mZk45enVydVJwTTF4VFIzdDNlbDNscmlrWUVGMEtBQU1Bb0dDQ3FHU000OUJBTUMKQTBjQU1FUUNJRHU3aDFnRzdIMkZlSE5pSnR3SzI0bVplMEpFVDVOUmx4cFh1WG5tWW1IQkFpQVY3M3ZUQ0ZWNApUbDNwUGNmWm15eHorQ1FlbEdRTW9mcEMrckZKTTNPOFFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==",
    ];

    #[test]
    fn nobody_asks_to_be_a_master() {
        let [masters, dev] = REQUESTS;
        for (signer, request, may) in [
            (CLIENTS, masters, false),
            (CLIENTS, dev, true),
            ("example.com/signer", masters, true),
            (CLIENTS, "LS0t", false),
        ] {
            let object = json!({ "spec": { "signerName": signer, "request": request } });
            let judged = with_request("certificates.k8s.io", "certificatesigningrequests", None, |request| {
                validate(request, &Objects::new("", Vec::new()), &object)
            });
            assert_eq!(judged.is_ok(), may, "{object}");
        }
    }
}
