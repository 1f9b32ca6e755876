//! Refuses a role or a binding that grants more than its writer holds.

use super::change::{Change, State, Write};
use crate::auth::escalation;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    if change.live.is_none() || ctx.info.subresource.is_empty() {
        escalation::check(ctx, state.snapshot, &change.new, change.live_object())?;
    }
    Ok(())
}
