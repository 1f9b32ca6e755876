//! LimitRanger: pods get what they did not ask for, and pods and claims stay within bounds.

use serde_json::Value;
use setpoint_kinds::limits;
use setpoint_store::{KeyRange, Snapshot};

use crate::error::{ApiError, Result};
use crate::object;
use crate::registry::{self, key};
use crate::server::Ask;

/// The ranges that a write of this object must mind. Containers of a pod change by a resize alone, and what is to go is
/// left alone.
fn ranges(ask: &Ask, snapshot: &Snapshot, live: Option<&Value>) -> Vec<Value> {
    let concerned = match ask.info.subresource.as_str() {
        "" if live.is_none() => ask.resource.is("", "pods") || ask.resource.is("", "persistentvolumeclaims"),
        "" => ask.resource.is("", "persistentvolumeclaims"),
        "resize" => live.is_some() && ask.resource.is("", "pods"),
        _ => false,
    };
    if !concerned || live.is_some_and(object::is_terminating) {
        return Vec::new();
    }
    let near = key::object("", "limitranges", &ask.info.namespace, "");
    snapshot.range(&KeyRange::prefix(near), None).map(|entry| registry::value(entry)).collect()
}

/// Gives the containers of a pod what they lack.
pub(super) fn fill(ask: &Ask, snapshot: &Snapshot, object: &mut Value, live: Option<&Value>) {
    if ask.resource.is("", "pods") {
        for range in ranges(ask, snapshot, live) {
            limits::fill(&range, object);
        }
    }
}

/// Refuses what is out of bounds.
pub(super) fn check(ask: &Ask, snapshot: &Snapshot, object: &Value, live: Option<&Value>) -> Result<()> {
    let judge = if ask.resource.is("", "pods") { limits::refuse_pod } else { limits::refuse_claim };
    let refused = ranges(ask, snapshot, live).iter().find_map(|range| judge(range, object));
    refused.map_or(Ok(()), |why| {
        Err(ApiError::forbidden(&ask.resource.group_resource(), object::name(object), &why))
    })
}
