//! Field selectors on stored objects.

use setpoint_api::kind::GroupVersionKind;
use setpoint_api::selector::FieldSelector;
use setpoint_kinds::fields;
use setpoint_store::Entry;

use super::{Resource, meta};
use crate::error::{ApiError, Result};

fn kind(resource: &Resource) -> GroupVersionKind {
    GroupVersionKind {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
    }
}

/// Refuses fields that the kind does not offer.
pub fn check(resource: &Resource, selector: &FieldSelector) -> Result<()> {
    let custom = resource.custom.as_ref().map_or(&[][..], |custom| custom.selectable(&resource.version));
    fields::check(&kind(resource), resource.namespaced, custom, selector).map_err(|error| {
        match resource.custom {
            None => ApiError::bad_request(error.to_string()),
            Some(_) => {
                let text = error.to_string();
                let field = text.split('"').nth(1).unwrap_or("");
                ApiError::bad_request(format!("field label not supported: {field}"))
            }
        }
    })
}

/// Whether a stored object has the fields that the selector wants.
pub fn matches(resource: &Resource, selector: &FieldSelector, entry: &Entry) -> bool {
    let meta = meta(entry);
    selector.matches(|field| match field {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        field => meta.field(field, || fields::value(&kind(resource), field, &super::value(entry))),
    })
}
