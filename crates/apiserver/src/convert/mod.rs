//! Kinds that are two views of one stored form: events of both groups, autoscalers of both versions.

mod autoscaler;
mod event;

use serde_json::{Value, json};

use crate::registry::Resource;

/// Whether objects of this built-in resource are stored in another form than they are shown in.
pub(crate) fn is_other_view(resource: &Resource) -> bool {
    resource.custom.is_none() && !resource.is_stored_form()
}

/// A stored object as this resource shows it.
pub(crate) fn from_stored(resource: &Resource, value: Value) -> Value {
    match resource.plural.as_str() {
        "events" => event::from_core(value),
        _ => autoscaler::to_v1(value),
    }
}

/// An object of this resource as it is stored.
pub(crate) fn to_stored(resource: &Resource, value: Value) -> Value {
    let mut stored = match resource.plural.as_str() {
        "events" => event::to_core(value),
        _ => autoscaler::to_v2(value),
    };
    stored["apiVersion"] = json!(resource.storage_api_version);
    stored
}
