//! Objects that are about to be written, and what webhooks make of them.

use serde_json::{Map, Value};
use setpoint_machinery::apply;
use setpoint_store::Snapshot;

use super::{Attributes, Operation, mutate};
use crate::admission;
use crate::error::Result;
use crate::object;
use crate::verb::create::place;
use crate::write::{Writer, single_owners};

/// Lets the mutating webhooks have a new object, which shows them neither what the server gives it later nor a name
/// that was only drawn. What the writer is to be told comes back.
pub(crate) fn create(writer: &Writer<'_>, snapshot: &Snapshot, object: &mut Value) -> Result<Vec<String>> {
    let ctx = writer.ctx;
    let attributes = || {
        let mut shown = object.clone();
        let metadata = object::metadata_mut(&mut shown);
        metadata.remove("uid");
        metadata.remove("creationTimestamp");
        if writer.has_drawn(object::name(object)) {
            metadata.remove("name");
        }
        Attributes::of(ctx, snapshot, Operation::Create).with(shown, None)
    };
    let admit = |changed: &mut Value| admission::create(writer, snapshot, changed);
    let Some(mut changed) = mutate(ctx, attributes, admit)? else { return Ok(Vec::new()) };
    let given: Map<String, Value> = object::metadata_mut(object).clone();
    let metadata = object::metadata_mut(&mut changed);
    for field in
        ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"]
    {
        metadata.remove(field);
    }
    for field in ["uid", "creationTimestamp"] {
        metadata.extend(given.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    if metadata.get("name").is_none_or(|name| name == "") {
        metadata.extend(given.get("name").map(|name| ("name".to_owned(), name.clone())));
    }
    let warnings = keep_managers(object, &mut changed).into_iter().chain(single_owners(&mut changed, true));
    let warnings = warnings.collect();
    *object = place(ctx, changed)?;
    Ok(warnings)
}

/// Lets the mutating webhooks have a changed object. What the writer is to be told comes back.
pub(crate) fn update(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    new: &mut Value,
    live: &Value,
) -> Result<Vec<String>> {
    let ctx = writer.ctx;
    // What scales is judged as a Scale.
    if ctx.info.subresource == "scale" {
        return Ok(Vec::new());
    }
    let attributes = || {
        let mut shown = new.clone();
        let metadata = object::metadata_mut(&mut shown);
        metadata.retain(|field, _| !writer.unsent.contains(&field.as_str()));
        Attributes::of(ctx, snapshot, Operation::Update).with(shown, Some(live))
    };
    let admit = |changed: &mut Value| {
        admission::update(writer, snapshot, changed, live);
        Ok(())
    };
    let Some(mut changed) = mutate(ctx, attributes, admit)? else { return Ok(Vec::new()) };
    let warnings = keep_managers(new, &mut changed).into_iter().chain(single_owners(&mut changed, true));
    let warnings = warnings.collect();
    crate::verb::update::keep_system_fields(&mut changed, live);
    *new = changed;
    Ok(warnings)
}

/// Lets the validating webhooks judge what will be stored.
pub(crate) fn validate(
    writer: &Writer<'_>,
    snapshot: &Snapshot,
    object: &Value,
    live: Option<&Value>,
) -> Result<()> {
    let ctx = writer.ctx;
    if ctx.info.subresource == "scale" {
        return Ok(());
    }
    let operation = if live.is_some() { Operation::Update } else { Operation::Create };
    super::validate(ctx, || Attributes::of(ctx, snapshot, operation).with(object.clone(), live))
}

/// Owners that a webhook has made unreadable are as they were before it.
fn keep_managers(before: &Value, after: &mut Value) -> Option<String> {
    let error = apply::check_managers(after.pointer("/metadata/managedFields")).err()?;
    let metadata = object::metadata_mut(after);
    metadata.remove("managedFields");
    let managers = before.pointer("/metadata/managedFields");
    metadata.extend(managers.map(|managers| ("managedFields".to_owned(), managers.clone())));
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
         mutating admission controller; please fix your requests: {error}"
    ))
}
