//! The `AdmissionReview` that a webhook gets.

use serde_json::{Value, json};
use setpoint_api::kind::GroupVersionKind;

use super::attributes::Attributes;

/// The resource and kind that a webhook sees: those of the request, or those that the webhook's rules name for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EquivalentResource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) kind: GroupVersionKind,
}

/// The first version of AdmissionReview in a webhook's list that we speak.
pub(crate) fn version(accepted: &[String]) -> Option<&'static str> {
    accepted.iter().find_map(|version| match version.as_str() {
        "v1" => Some("v1"),
        "v1beta1" => Some("v1beta1"),
        _ => None,
    })
}

/// An AdmissionReview with its request.
pub(crate) fn review(
    version: &str,
    uid: &str,
    attributes: &Attributes,
    equivalent: &EquivalentResource,
    objects: (Option<Value>, Option<Value>),
    user: &Value,
) -> Value {
    let kind =
        |kind: &GroupVersionKind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let resource = |group: &str, version: &str, resource: &str| json!({"group": group, "version": version, "resource": resource});
    let mut request = json!({
        "uid": uid,
        "kind": kind(&equivalent.kind),
        "resource": resource(&equivalent.group, &equivalent.version, &equivalent.resource),
        "requestKind": kind(&attributes.kind),
        "requestResource": resource(&attributes.group, &attributes.version, &attributes.resource),
        "operation": attributes.operation.as_str(),
        "userInfo": user,
        "object": objects.0,
        "oldObject": objects.1,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    for (field, text) in [
        ("subResource", &attributes.subresource),
        ("requestSubResource", &attributes.subresource),
        ("name", &attributes.name),
        ("namespace", &attributes.namespace),
    ] {
        if !text.is_empty() {
            request[field] = json!(text);
        }
    }
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::attributes::Operation;

    #[test]
    fn the_first_known_version_is_spoken() {
        let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        assert_eq!(version(&list(&["v2", "v1beta1", "v1"])), Some("v1beta1"));
        assert_eq!(version(&list(&["v1", "v1beta1"])), Some("v1"));
        assert_eq!(version(&list(&["v2"])), None);
    }

    /// As kube-apiserver 1.37 asks about the deletion of an Event through the other group.
    #[test]
    fn a_review_tells_what_was_asked_and_as_what_it_is_shown() {
        let kind = |group: &str| GroupVersionKind {
            group: group.into(),
            version: "v1".into(),
            kind: "Event".into(),
        };
        let attributes = Attributes {
            version: "v1".into(),
            resource: "events".into(),
            kind: kind(""),
            name: "e".into(),
            namespace: "d".into(),
            ..Attributes::new(Operation::Delete)
        };
        let equivalent = EquivalentResource {
            group: "events.k8s.io".into(),
            version: "v1".into(),
            resource: "events".into(),
            kind: kind("events.k8s.io"),
        };
        let user = json!({"username": "u"});
        let review =
            review("v1", "7", &attributes, &equivalent, (None, Some(json!({"kind": "Event"}))), &user);
        assert_eq!(
            review,
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
                "uid": "7",
                "kind": {"group": "events.k8s.io", "version": "v1", "kind": "Event"},
                "resource": {"group": "events.k8s.io", "version": "v1", "resource": "events"},
                "requestKind": {"group": "", "version": "v1", "kind": "Event"},
                "requestResource": {"group": "", "version": "v1", "resource": "events"},
                "name": "e", "namespace": "d", "operation": "DELETE", "userInfo": {"username": "u"},
                "object": null, "oldObject": {"kind": "Event"}, "dryRun": false, "options": null}})
        );
    }
}
