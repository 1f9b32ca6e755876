//! DenyServiceExternalIPs: no Service takes traffic for an address that its author chose.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::items;

/// Refuses external addresses that the Service did not have before.
pub(super) fn validate(
    request: &Request<'_>,
    _: &dyn Cluster,
    service: &Value,
) -> Result<Vec<String>, Status> {
    let before = request.old.map_or(&[][..], |old| items(old, "spec.externalIPs"));
    let is_new = |address: &Value| !before.contains(address);
    if request.is_for("", "services") && items(service, "spec.externalIPs").iter().any(is_new) {
        return Err(request.forbidden("Use of external IPs is denied by admission control"));
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    #[test]
    fn a_service_keeps_its_addresses_and_gets_no_new_ones() {
        let service = |addresses: Value| json!({ "spec": { "externalIPs": addresses } });
        for (old, new, may) in [
            (None, service(json!(["1.2.3.4"])), false),
            (None, service(json!([])), true),
            (Some(service(json!(["1.2.3.4", "1.2.3.5"]))), service(json!(["1.2.3.5"])), true),
            (Some(service(json!(["1.2.3.4"]))), service(json!(["1.2.3.4", "1.2.3.5"])), false),
        ] {
            let judged = with_request("", "services", old.as_ref(), |request| {
                validate(request, &Objects::new("", Vec::new()), &new)
            });
            assert_eq!(judged.is_ok(), may, "{new}");
        }
    }
}
