//! Fills in the defaults of built-in kinds. Those of custom kinds are filled in when a body is read.

use setpoint_kinds::defaults;

use super::change::{Change, State, Write};
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    defaults::apply(&write.resource().stored_kind(), &mut change.new);
    Ok(())
}
