//! Lets the built-in plugins and then the mutating webhooks have the object, in kube-apiserver's order.

use serde_json::{Map, Value};
use setpoint_machinery::apply;

use super::change::{Change, Live, State, Write};
use super::metadata::{ABSENT_AT_FIRST, Found, keep_system_fields, place, single_owners};
use super::terminate;
use crate::admission::webhook::mutate;
use crate::admission::{Attributes, Operation, namespace, plugins};
use crate::decision::Decision;
use crate::object;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    write.writer.check_converted()?;
    if let Some(options) = write.delete {
        namespace::may_delete(write.ctx())?;
        if let Some(attributes) = terminate::attributes(write, options, state, change)? {
            mutate(write.ctx(), write.writer.reviews.as_ref(), || attributes, |_| Ok(()))?;
        }
        return Ok(());
    }
    match change.live.take() {
        None => created(write, state, change),
        Some(live) => {
            let admitted = changed(write, state, change, &live);
            change.live = Some(live);
            admitted
        }
    }
}

/// Webhooks see neither what the server gives a new object later nor a name that the server generated.
fn created(write: &Write<'_>, state: &State<'_>, change: &mut Change) -> Decision<()> {
    let (ctx, writer, snapshot) = (write.ctx(), write.writer, state.snapshot);
    let object = &mut change.new;
    namespace::may_create(snapshot, ctx, object::name(object))?;
    let generated = write.has_generated(object::name(object));
    let admit = |object: &mut Value| {
        plugins::Write { ctx, random: &writer.random(), snapshot, live: None, generated }.mutate(object)
    };
    admit(object)?;
    let attributes = || {
        let mut shown = object.clone();
        let metadata = object::metadata_mut(&mut shown);
        metadata.remove("uid");
        metadata.remove("creationTimestamp");
        if generated {
            metadata.remove("name");
        }
        Attributes::of_write(ctx, &writer.options, snapshot, Operation::Create).with(shown, None)
    };
    let Some(mut mutated) = mutate(ctx, writer.reviews.as_ref(), attributes, admit)? else { return Ok(()) };
    restore_identity(object, &mut mutated);
    change.warnings.extend(keep_managers(object, &mut mutated));
    change.warnings.extend(single_owners(&mut mutated, Found::AfterMutation));
    place(ctx, &mut mutated)?;
    *object = mutated;
    Ok(())
}

/// Gives a mutated object what the server gave it before the webhooks.
fn restore_identity(before: &mut Value, mutated: &mut Value) {
    let given: Map<String, Value> = object::metadata_mut(before).clone();
    let metadata = object::metadata_mut(mutated);
    for field in ABSENT_AT_FIRST {
        metadata.remove(field);
    }
    for field in ["uid", "creationTimestamp"] {
        metadata.extend(given.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    if metadata.get("name").is_none_or(|name| name == "") {
        metadata.extend(given.get("name").map(|name| ("name".to_owned(), name.clone())));
    }
}

fn changed(write: &Write<'_>, state: &State<'_>, change: &mut Change, live: &Live) -> Decision<()> {
    let (ctx, writer, live) = (write.ctx(), write.writer, &live.object);
    let (new, unsent) = (&mut change.new, &change.unsent);
    let admit = |object: &mut Value| {
        let (random, snapshot) = (&writer.random(), state.snapshot);
        plugins::Write { ctx, random, snapshot, live: Some(live), generated: false }.mutate(object)
    };
    admit(new)?;
    let attributes = || {
        let mut shown = new.clone();
        let metadata = object::metadata_mut(&mut shown);
        metadata.retain(|field, _| !unsent.contains(&field.as_str()));
        Attributes::of_write(ctx, &writer.options, state.snapshot, Operation::Update).with(shown, Some(live))
    };
    let Some(mut mutated) = mutate(ctx, writer.reviews.as_ref(), attributes, admit)? else { return Ok(()) };
    change.warnings.extend(keep_managers(new, &mut mutated));
    change.warnings.extend(single_owners(&mut mutated, Found::AfterMutation));
    keep_system_fields(&mut mutated, live);
    *new = mutated;
    Ok(())
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
