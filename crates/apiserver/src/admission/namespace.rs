//! NamespaceLifecycle and NamespaceExists: objects live in namespaces that exist and stay.

use setpoint_kinds::admission::Plugin;
use setpoint_store::Snapshot;

use super::plugins;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::key;
use crate::registry::meta;

/// Namespaces that nobody deletes.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Refuses new objects in a namespace that is absent or terminating.
pub(crate) fn may_create(snapshot: &Snapshot, ctx: &RequestContext, name: &str) -> Result<()> {
    let lives = plugins::is_on(ctx, Plugin::NamespaceLifecycle);
    if !ctx.resource.namespaced || !(lives || plugins::is_on(ctx, Plugin::NamespaceExists)) {
        return Ok(());
    }
    let namespace = &ctx.info.namespace;
    let stored = snapshot.get(&key::object("", "namespaces", "", namespace));
    let Some(entry) = stored else { return Err(ApiError::namespace_not_found(namespace)) };
    if !lives || meta(&entry).deletion_timestamp.is_none() {
        return Ok(());
    }
    // Reviews may still be made there.
    let text =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let message = format!("namespace {namespace} is being terminated");
    let error = ApiError::forbidden(&ctx.resource.group_resource(), name, &text);
    Err(error.with_cause("NamespaceTerminating", message, "metadata.namespace"))
}

/// Refuses the deletion of namespaces that the cluster needs.
pub(crate) fn may_delete(ctx: &RequestContext) -> Result<()> {
    let is_on = plugins::is_on(ctx, Plugin::NamespaceLifecycle);
    if is_on && ctx.resource.is("", "namespaces") && IMMORTAL.contains(&ctx.info.name.as_str()) {
        let text = "this namespace may not be deleted";
        return Err(ApiError::forbidden(&ctx.resource.group_resource(), &ctx.info.name, text));
    }
    Ok(())
}
