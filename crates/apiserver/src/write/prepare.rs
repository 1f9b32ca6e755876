//! Prepares the object as its kind asks: generation, status, what a subresource may change; or how it begins to end.

use serde_json::Value;
use setpoint_kinds::strategy;

use super::change::{Change, State, Write};
use super::terminate;
use crate::decision::Decision;
use crate::registry::Resource;
use crate::versions::present;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, writer) = (write.resource(), write.writer);
    change.requested_view = change.live_object().and_then(|live| requested_view(resource, live));
    if let Some(options) = write.delete {
        return terminate::run(write, options, change);
    }
    let Change { new, requested_view, live, .. } = change;
    let Some(old) = requested_view.as_ref().or(live.as_ref().map(|live| &live.object)) else {
        strategy::create(&resource.facts, new, &writer.context());
        return Ok(());
    };
    match writer.ctx.info.subresource.as_str() {
        "" | "scale" => strategy::update(&resource.facts, new, old, &writer.context()),
        subresource => {
            strategy::update_subresource(&resource.facts, subresource, new, old, &writer.context());
        }
    }
    Ok(())
}

/// The stored object as the version of the request has it, where that is another.
pub(crate) fn requested_view(resource: &Resource, live: &Value) -> Option<Value> {
    if resource.has_all_that_is_stored() {
        return None;
    }
    let mut requested_view = present::value(resource, live.clone());
    requested_view["apiVersion"] = Value::from(resource.storage_api_version.as_str());
    Some(requested_view)
}
