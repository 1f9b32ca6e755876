//! The stages of every write, in order. A stage of a few lines stands here, behind the list; every other one is the
//! function `run` of the module of its name.

use setpoint_kinds::{defaults, strategy as rules};
use setpoint_store::{Snapshot, Txn};

use super::change::Kind::{Apply, Bind, Create, Delete, Evict, Scale};
use super::change::{Change, Kind, Live, State, Write};
use super::metadata::{Found, single_owners};
use super::{
    identify, mutating_admission, precondition, prepare, store, strategy, validate, validating_admission,
};
use crate::admission::quota;
use crate::decision::Decision;
use crate::tracking;
use crate::versions::conversion;

/// A step on the way from a decoded body to the transaction.
struct Stage {
    name: &'static str,
    run: fn(&Write<'_>, &mut State<'_>, &mut Change) -> Decision<()>,
    /// The kinds of writes that have no such step.
    skipped_by: &'static [Kind],
}

const fn stage(
    name: &'static str,
    run: fn(&Write<'_>, &mut State<'_>, &mut Change) -> Decision<()>,
    skipped_by: &'static [Kind],
) -> Stage {
    Stage { name, run, skipped_by }
}

/// All stages. A deletion through a collection is one deletion for each object.
const STAGES: [Stage; 16] = [
    stage("read", read, &[Create]),
    stage("merge", merge, &[]),
    stage("precondition", precondition::run, &[Create, Scale, Bind, Evict, Delete]),
    stage("identify", identify::run, &[Bind, Evict, Delete]),
    stage("default", default, &[Bind, Evict, Delete]),
    stage("track_fields", track_fields, &[Apply, Scale, Bind, Evict, Delete]),
    stage("mutating_admission", mutating_admission::run, &[Scale, Bind, Evict]),
    stage("allocate", allocate, &[Scale, Bind, Evict, Delete]),
    stage("authorize", authorize, &[Scale, Bind, Evict, Delete]),
    stage("prepare", prepare::run, &[Bind]),
    stage("validate", validate::run, &[Bind, Evict, Delete]),
    stage("warn", warn, &[Bind, Evict, Delete]),
    stage("validating_admission", validating_admission::run, &[Scale, Bind, Evict]),
    stage("quota", charge_quota, &[Bind, Evict, Delete]),
    stage("encode", encode, &[Bind]),
    stage("store", store::run, &[]),
];

/// Decides a write on a state. Nothing else decides what is stored for a request.
pub(super) fn decide(write: &Write<'_>, snapshot: &Snapshot, txn: &mut Txn) -> Decision<Change> {
    let mut state = State { snapshot, txn };
    let mut change = Change::default();
    let decided = run_stages(write, &mut state, &mut change);
    // An error outside of the decision takes these with it: a full store, a webhook that takes too long.
    write.note_warnings(&change.warnings);
    decided.map(|()| change)
}

fn run_stages(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    for stage in STAGES.iter().filter(|stage| !stage.skipped_by.contains(&write.kind)) {
        let ran = (stage.run)(write, state, change);
        // A stage that was interrupted may come to anything.
        write.ctx().work.check_interrupt()?;
        ran.map_err(|stop| {
            tracing::trace!(stage = stage.name, %stop, "the write stops");
            stop.with_warnings(&change.warnings)
        })?;
        if change.outcome.is_some() {
            break;
        }
    }
    Ok(())
}

/// Reads the stored object in the version of the request.
fn read(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    change.key = ctx.resource.key(&ctx.info.namespace, write.name);
    if let Some(entry) = state.snapshot.get(&change.key) {
        let object = conversion::live(write.writer.conversions.as_ref(), &entry)?;
        change.live = Some(Live { entry, object });
    }
    Ok(())
}

/// Makes the new object of the body and the stored object, as the verb or the subresource has it.
fn merge(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    write.merge.merge(write, state, change)
}

/// Fills in the defaults of built-in kinds. Those of custom kinds are filled in when a body is read.
fn default(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    defaults::apply(&write.resource().stored_kind(), &mut change.new);
    Ok(())
}

/// Notes in `metadata.managedFields` who owns what. An apply has done so while it merged.
fn track_fields(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    match &change.live {
        Some(live) => tracking::updated(write.writer, &live.object, &mut change.new),
        None => tracking::created(write.writer, &mut change.new),
    }
    // An owner that a patch doubles is noticed after its fields are tracked; one that a body doubles, before.
    if write.kind == Kind::Patch {
        change.warnings.extend(single_owners(&mut change.new, Found::AfterMutation));
    }
    Ok(())
}

/// Gives a Service its addresses and ports, once webhooks have had their say.
fn allocate(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let Change { new, live, .. } = change;
    if write.ctx().info.subresource.is_empty() {
        let live = live.as_ref().map(|live| &live.object);
        strategy::of(write.resource()).allocate(write.writer, state.snapshot, new, live)?;
    }
    Ok(())
}

/// Refuses a role or a binding that grants more than its writer holds.
fn authorize(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    if change.live.is_none() || ctx.info.subresource.is_empty() {
        strategy::of(&ctx.resource).authorize(ctx, state.snapshot, &change.new, change.live_object())?;
    }
    Ok(())
}

/// Warns of what is valid and probably not meant.
fn warn(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let warnings = strategy::of(resource).warnings(resource, subresource, &change.new, change.old());
    change.warnings.extend(warnings);
    Ok(())
}

/// Charges the quotas of the namespace. This comes last: the charge is written in the same transaction.
fn charge_quota(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let writer = write.writer;
    quota::charge(writer.ctx, writer.now, state.snapshot, state.txn, &change.new, change.live_object())?;
    Ok(())
}

/// Brings the object into the form in which it is stored.
fn encode(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let strategy = strategy::of(resource);
    let Change { new, live, .. } = change;
    if write.delete.is_none() {
        rules::stored(&resource.stored_kind(), new);
        strategy.complete(subresource, live.as_ref().map(|live| &live.object), new);
    }
    strategy.encode(resource, subresource, new);
    Ok(())
}
