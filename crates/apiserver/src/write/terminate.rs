//! How an object begins to end: preconditions, finalizers, grace.

use serde_json::{Value, json};
use setpoint_kinds::facts::Garbage;
use setpoint_kinds::strategy::grace_period;

use super::change::{Change, Live, State, Write};
use super::delete_options::DeleteOptions;
use super::strategy;
use crate::admission::{Attributes, Operation};
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::object::{self, begin_deletion, set_deletion};
use crate::registry::Resource;

/// The finalizers that the two propagation policies beside `Background` stand for.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Sets the object as its deletion leaves it. The last stage deletes it if nothing holds it any more.
pub(super) fn run(write: &Write<'_>, options: &DeleteOptions, change: &mut Change) -> Decision<()> {
    let (ctx, now) = (write.ctx(), write.writer.now);
    let Some(live) = &change.live else { return Ok(()) };
    check_preconditions(&ctx.resource, options, live)?;
    let live = &live.object;
    // An object that waits for its end is written in the version of the request.
    let mut new = change.requested_view.take().unwrap_or_else(|| live.clone());
    set_finalizers(&mut new, finalizers(&ctx.resource, options, live));
    let grace = grace_period(&ctx.resource.facts, live, options.grace_period_seconds);
    if !object::is_terminating(live) {
        begin_deletion(&mut new, grace.unwrap_or(0), now);
    } else if let Some(grace) = grace.filter(|grace| *grace < seconds_left(live).unwrap_or(0)) {
        // A second deletion can only bring the end nearer.
        set_deletion(&mut new, grace, now);
    }
    strategy::of(&ctx.resource).begin_deletion(&mut new, now);
    change.new = new;
    Ok(())
}

/// A deletion as webhooks see it; none where they have judged it before: the object is on its way, and not hurried.
pub(super) fn attributes(
    write: &Write<'_>,
    options: &DeleteOptions,
    state: &State<'_>,
    change: &Change,
) -> Result<Option<Attributes>> {
    let ctx = write.ctx();
    let Some(live) = change.live_object().filter(|_| write.writer.reviews.is_some()) else { return Ok(None) };
    let is_hurried = |left: i64| options.grace_period_seconds.is_some_and(|grace| grace < left);
    if ctx.resource.facts.graceful
        && object::is_terminating(live)
        && seconds_left(live).is_some_and(|left| !is_hurried(left))
    {
        return Ok(None);
    }
    let mut shown = options.to_value()?;
    strategy::of(&ctx.resource).review_deletion(live, &mut shown);
    Ok(Some(Attributes {
        old: Some(live.clone()),
        options: shown,
        ..Attributes::of_write(ctx, &write.writer.options, state.snapshot, Operation::Delete)
    }))
}

fn seconds_left(object: &Value) -> Option<i64> {
    object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
}

fn check_preconditions(resource: &Resource, options: &DeleteOptions, live: &Live) -> Result<()> {
    let Some(wanted) = &options.preconditions else { return Ok(()) };
    let (name, uid) = (object::name(&live.object), object::meta_text(&live.object, "uid"));
    if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
        let text = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        );
        return Err(ApiError::delete_precondition(resource, name, &text));
    }
    let version = live.entry.mod_revision.to_string();
    if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let text = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::delete_precondition(resource, name, &text));
    }
    Ok(())
}

/// The finalizers of the object with those that the deletion adds, and without those that it takes away.
fn finalizers(resource: &Resource, options: &DeleteOptions, live: &Value) -> Vec<String> {
    let mut finalizers: Vec<String> = object::finalizers(live).into_iter().map(str::to_owned).collect();
    if resource.facts.garbage == Garbage::Unsupported {
        return finalizers;
    }
    let policy = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(true), _) | (_, Some("Orphan")) => ORPHAN,
        (Some(false), _) | (_, Some("Background")) => "",
        (_, Some("Foreground")) => FOREGROUND,
        // Nothing shown: what the object carries already stands.
        _ => return finalizers,
    };
    finalizers.retain(|own| own != ORPHAN && own != FOREGROUND);
    if !policy.is_empty() {
        finalizers.push(policy.to_owned());
    }
    finalizers
}

fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let metadata = object::metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// Whether nothing holds a terminating object any more: no finalizer, no grace.
pub(super) fn may_go(ctx: &RequestContext, object: &Value) -> bool {
    if !object::is_terminating(object) || !object::finalizers(object).is_empty() {
        return false;
    }
    seconds_left(object).unwrap_or(0) == 0 && !strategy::of(&ctx.resource).is_held(object)
}
