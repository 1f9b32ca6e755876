//! Notes in `metadata.managedFields` who owns what. An apply has done so while it merged.

use super::change::{Change, Kind, State, Write};
use super::metadata::{Found, single_owners};
use crate::decision::Decision;
use crate::tracking;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
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
