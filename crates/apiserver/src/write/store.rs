//! Puts the object into the transaction, or leaves what is stored, or deletes it.

use serde_json::Value;
use setpoint_machinery::apply::only_timestamps_differ;
use setpoint_store::Txn;

use super::change::{Change, Live, Outcome, State, Write};
use super::{strategy, terminate};
use crate::decision::Decision;
use crate::error::ApiError;
use crate::versions::conversion;
use crate::writer::Writer;
use crate::{object, size};

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let outcome = match change.live.take() {
        None => insert(write, state, change)?,
        Some(live) => {
            let outcome = match write.delete {
                Some(_) => remove(write, state, change, &live)?,
                None => replace(write, state, change, &live)?,
            };
            change.live = Some(live);
            outcome
        }
    };
    change.outcome = Some(outcome);
    Ok(())
}

fn insert(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<Outcome> {
    let (resource, writer, new) = (write.resource(), write.writer, &mut change.new);
    // It is the storage that minds a version, and a dry run does not get there.
    if !change.sent_version.is_empty() && !writer.is_dry_run() {
        let text = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::internal_plain(text).into());
    }
    change.key = resource.key(object::meta_text(new, "namespace"), object::name(new));
    if state.snapshot.get(&change.key).is_some() {
        return Err(ApiError::already_exists(resource, object::name(new)).into());
    }
    put(writer, state.txn, change.key.clone(), new)?;
    if !change.sent_version.is_empty() {
        object::set_meta_text(new, "resourceVersion", &change.sent_version);
    }
    Ok(Outcome::Written)
}

/// An object that only waited for its finalizers goes.
fn replace(write: &Write<'_>, state: &mut State<'_>, change: &mut Change, live: &Live) -> Decision<Outcome> {
    let (ctx, new) = (write.ctx(), &mut change.new);
    object::set_meta_text(new, "resourceVersion", object::meta_text(&live.object, "resourceVersion"));
    if terminate::may_go(ctx, new) {
        state.txn.delete(change.key.clone());
        return Ok(Outcome::Deleted);
    }
    let conversions = write.writer.conversions.as_ref();
    let stored = conversion::stored(conversions, new)?;
    let unchanged = conversion::is_stored_already(conversions, &live.entry, &stored);
    if unchanged.unwrap_or_else(|| only_timestamps_differ(&live.object, new)) {
        return Ok(Outcome::Unchanged);
    }
    put(write.writer, state.txn, change.key.clone(), new)?;
    Ok(Outcome::Written)
}

fn remove(write: &Write<'_>, state: &mut State<'_>, change: &mut Change, live: &Live) -> Decision<Outcome> {
    let ctx = write.ctx();
    if terminate::may_go(ctx, &change.new) {
        // Watchers of a kind with grace see the deletion begin, even without a second of grace, and then the end.
        if ctx.resource.facts.graceful && change.new != live.object {
            put(write.writer, state.txn, change.key.clone(), &change.new)?;
            change.is_dying = true;
            return Ok(Outcome::Deleted);
        }
        state.txn.delete(change.key.clone());
        if !ctx.resource.facts.graceful {
            change.new.clone_from(&live.object);
        }
        return Ok(Outcome::Deleted);
    }
    if change.new != live.object {
        put(write.writer, state.txn, change.key.clone(), &change.new)?;
    }
    Ok(Outcome::Written)
}

/// Puts an object under its key, in the version that is stored.
fn put(writer: &Writer<'_>, txn: &mut Txn, key: Vec<u8>, object: &Value) -> Decision<()> {
    let ctx = writer.ctx;
    let mut stored = conversion::stored(writer.conversions.as_ref(), object)?;
    // managedFields nest a little deeper than the object itself. The server must be able to read what it stores.
    if object::depth(&stored) > object::MAX_DEPTH {
        object::metadata_mut(stored.to_mut()).remove("managedFields");
        if object::depth(&stored) > object::MAX_DEPTH {
            return Err(ApiError::too_deep().into());
        }
    }
    let encoded = size::encoded(ctx, &mut stored)?;
    let put = txn.put_with(key, move |revision| encoded.at(revision));
    if let Some(kept) = strategy::of(&ctx.resource).expires_after(ctx.server.options()) {
        let expires = writer.now.as_millisecond() + i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
        put.expires_at(u64::try_from(expires).unwrap_or(0));
    }
    Ok(())
}
