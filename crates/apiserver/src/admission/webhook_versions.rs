//! Conversion of objects to the version that a webhook asks for, and back.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_kinds::defaults;
use setpoint_machinery::apply::ConversionError;

use super::attributes::Attributes;
use super::review::EquivalentResource;
use crate::context::RequestContext;
use crate::registry::{DecodeError, Resource};
use crate::versions::present;
use crate::versions::{builtin_views, conversion};

/// The resource that the webhook's rules name for the request, if the objects are of that resource's own kind.
fn resource(
    ctx: &RequestContext,
    attributes: &Attributes,
    equivalent: &EquivalentResource,
) -> Option<Arc<Resource>> {
    if !attributes.is_own_kind {
        return None;
    }
    if equivalent.kind == attributes.kind {
        return Some(ctx.resource.clone());
    }
    ctx.server.0.registry.find(&equivalent.group, &equivalent.version, &equivalent.resource)
}

/// A patched object that the server cannot take over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// An object in the version that the webhook asks for.
///
/// # Errors
/// It cannot be converted to that version.
pub(crate) async fn shown(
    ctx: &RequestContext,
    attributes: &Attributes,
    equivalent: &EquivalentResource,
    value: &Value,
) -> Result<Value, ConversionError> {
    if let Some(resource) = resource(ctx, attributes, equivalent) {
        if is_converted(ctx, &resource) {
            return conversion::at(ctx, value, &resource.api_version()).await;
        }
        return Ok(present::value(&resource, value.clone()));
    }
    let mut shown = value.clone();
    let kind = &attributes.kind;
    shown["kind"] = json!(kind.kind);
    shown["apiVersion"] = json!(api_version(&kind.group, &kind.version));
    Ok(shown)
}

/// Whether a webhook converts between the version of the request and that of this resource.
fn is_converted(ctx: &RequestContext, resource: &Resource) -> bool {
    conversion::converted_by_webhook(&ctx.resource).is_some() && resource.version != ctx.resource.version
}

/// The object that a webhook patched: in the webhook's version, and as the server decides on it.
pub(crate) struct Read {
    pub(crate) shown: Value,
    pub(crate) object: Value,
}

/// Reads a patched object. Fields that its type does not have are dropped, and defaults are filled in again.
///
/// # Errors
/// The patched object is not an object of the kind.
pub(crate) async fn read(
    ctx: &RequestContext,
    attributes: &Attributes,
    equivalent: &EquivalentResource,
    patched: Value,
) -> Result<Read, TakeError> {
    let Some(resource) = resource(ctx, attributes, equivalent) else {
        let kind = &attributes.kind;
        let schema = setpoint_schema::builtin().schema(&kind.group, &kind.version, &kind.kind);
        let schema = schema.unwrap_or_else(setpoint_schema::Schema::any);
        let shown = setpoint_schema::read_value(patched, &schema).map_err(DecodeError::from)?.value;
        return Ok(Read { object: shown.clone(), shown });
    };
    let read = match &resource.custom {
        Some(custom) => custom.read_value(&resource.version, patched)?,
        None => setpoint_schema::read_value(patched, &resource.schema()).map_err(DecodeError::from)?,
    };
    let shown = read.value;
    let mut object = shown.clone();
    if let Some(custom) = ctx.resource.custom.as_ref().filter(|_| is_converted(ctx, &resource)) {
        let own = conversion::at(ctx, &object, &ctx.resource.api_version()).await?;
        object = custom.read_value(&ctx.resource.version, own)?.value;
    }
    if builtin_views::is_other_view(&resource) {
        object = builtin_views::to_stored(&resource, object);
    }
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(ctx.resource.storage_api_version);
    defaults::apply(&resource.stored_kind(), &mut object);
    Ok(Read { shown, object })
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
