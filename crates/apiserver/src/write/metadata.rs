//! Metadata that every write treats alike: name, namespace, owners, and what a client cannot change.

use serde_json::Value;
use setpoint_kinds::warnings;

use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::object;

/// Metadata that a new object does not have, whoever sends it.
pub(super) const ABSENT_AT_FIRST: [&str; 5] =
    ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// Gives the object the namespace of the request.
///
/// # Errors
/// It names another.
pub(crate) fn place(ctx: &RequestContext, object: &mut Value) -> Result<()> {
    if !ctx.resource.namespaced {
        object::set_meta_text(object, "namespace", "");
        return Ok(());
    }
    let sent = object::meta_text(object, "namespace");
    if !sent.is_empty() && sent != ctx.info.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::set_meta_text(object, "namespace", &ctx.info.namespace);
    Ok(())
}

/// Checks that the object has the name of the request.
pub(crate) fn check_name(ctx: &RequestContext, object: &Value) -> Result<()> {
    let (sent, name) = (object::name(object), &ctx.info.name);
    if sent.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if sent != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// When an owner was found to stand twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    InBody,
    AfterMutation,
}

/// Removes owner references that stand twice, and says so.
pub(crate) fn single_owners(object: &mut Value, found: Found) -> Option<String> {
    let uids = warnings::single_owners(object)?;
    let when = if found == Found::AfterMutation { " after mutating admission happens" } else { "" };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
}

/// Metadata that an object keeps when a replacement leaves it out; the uid only then.
pub(crate) const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "uid"];

/// Restores what a client cannot change, or may leave out.
pub(super) fn keep_system_fields(new: &mut Value, live: &Value) {
    let of_live = |field: &str| live.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
    let metadata = object::metadata_mut(new);
    for field in &SYSTEM_FIELDS[..4] {
        if let Some(value) = of_live(field) {
            metadata.insert((*field).to_owned(), value);
        }
    }
    for field in ["uid", "namespace"] {
        if metadata.get(field).and_then(Value::as_str).unwrap_or("").is_empty()
            && let Some(value) = of_live(field)
        {
            metadata.insert(field.to_owned(), value);
        }
    }
    metadata.remove("selfLink");
}
