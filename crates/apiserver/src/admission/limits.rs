//! LimitRanger: pods get what they did not ask for, and pods and claims stay within bounds.

use serde_json::Value;
use setpoint_kinds::limits;
use setpoint_store::{KeyRange, Snapshot};

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::object;
use crate::registry;

/// The ranges that a write of this object must mind. Containers of a pod change by a resize alone, and what is to go is
/// left alone.
fn ranges(ctx: &RequestContext, snapshot: &Snapshot, live: Option<&Value>) -> Vec<Value> {
    if !ctx.server.options().admission.limit_ranger {
        return Vec::new();
    }
    let concerned = match ctx.info.subresource.as_str() {
        "" if live.is_none() => ctx.resource.is("", "pods") || ctx.resource.is("", "persistentvolumeclaims"),
        "" => ctx.resource.is("", "persistentvolumeclaims"),
        "resize" => live.is_some() && ctx.resource.is("", "pods"),
        _ => false,
    };
    if !concerned || live.is_some_and(object::is_terminating) {
        return Vec::new();
    }
    let near = key::object("", "limitranges", &ctx.info.namespace, "");
    snapshot.range(&KeyRange::prefix(near), None).map(|entry| registry::value(entry)).collect()
}

/// Gives the containers of a pod what they lack.
pub(super) fn fill(ctx: &RequestContext, snapshot: &Snapshot, object: &mut Value, live: Option<&Value>) {
    if ctx.resource.is("", "pods") {
        for range in ranges(ctx, snapshot, live) {
            limits::fill(&range, object);
        }
    }
}

/// Refuses what is out of bounds.
pub(crate) fn check(
    ctx: &RequestContext,
    snapshot: &Snapshot,
    object: &Value,
    live: Option<&Value>,
) -> Result<()> {
    let refuse = if ctx.resource.is("", "pods") { limits::refuse_pod } else { limits::refuse_claim };
    let refused = ranges(ctx, snapshot, live).iter().find_map(|range| refuse(range, object));
    refused.map_or(Ok(()), |why| {
        Err(ApiError::forbidden(&ctx.resource.group_resource(), object::name(object), &why))
    })
}
