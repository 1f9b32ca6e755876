//! The stages of every write, in order.

use setpoint_store::{Snapshot, Txn};

use super::change::Kind::{Apply, Bind, Create, Delete, Evict, Scale};
use super::change::{Change, Kind, State, Write};
use super::{
    allocate, authorize, default, encode, identify, merge, mutating_admission, precondition, prepare, quota,
    read, store, track_fields, validate, validating_admission, warn,
};
use crate::decision::Decision;

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
    stage("read", read::run, &[Create]),
    stage("merge", merge::run, &[]),
    stage("precondition", precondition::run, &[Create, Scale, Bind, Evict, Delete]),
    stage("identify", identify::run, &[Bind, Evict, Delete]),
    stage("default", default::run, &[Bind, Evict, Delete]),
    stage("track_fields", track_fields::run, &[Apply, Scale, Bind, Evict, Delete]),
    stage("mutating_admission", mutating_admission::run, &[Scale, Bind, Evict]),
    stage("allocate", allocate::run, &[Scale, Bind, Evict, Delete]),
    stage("authorize", authorize::run, &[Scale, Bind, Evict, Delete]),
    stage("prepare", prepare::run, &[Bind]),
    stage("validate", validate::run, &[Bind, Evict, Delete]),
    stage("warn", warn::run, &[Bind, Evict, Delete]),
    stage("validating_admission", validating_admission::run, &[Scale, Bind, Evict]),
    stage("quota", quota::run, &[Bind, Evict, Delete]),
    stage("encode", encode::run, &[Bind]),
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
