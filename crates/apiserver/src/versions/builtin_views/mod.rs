//! Kinds that are two views of one stored form: events of both groups, autoscalers of both versions.

mod autoscaler;
mod event;

use serde_json::{Value, json};
use setpoint_machinery::apply::Versions;
use setpoint_schema::{Schema, builtin};

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

/// The other version of autoscalers, for managers that wrote in it. Other kinds have one; kube-apiserver forgets who
/// wrote an event through the other group.
pub(crate) struct Views;

impl Versions for Views {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        let kind = object.get("kind")?.as_str()?;
        let mut converted = match (kind, object.get("apiVersion")?.as_str()?, api_version) {
            (_, from, to) if from == to => object.clone(),
            ("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1") => {
                autoscaler::to_v1(object.clone())
            }
            ("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2") => {
                autoscaler::to_v2(object.clone())
            }
            _ => return None,
        };
        converted["apiVersion"] = json!(api_version);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some((converted, builtin().schema(group, version, kind)?))
    }
}
