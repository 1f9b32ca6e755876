//! Refuses a role or a binding that grants more than its writer holds.

use super::change::{Change, State, Write};
use super::strategy;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    if change.live.is_none() || ctx.info.subresource.is_empty() {
        strategy::of(&ctx.resource).authorize(ctx, state.snapshot, &change.new, change.live_object())?;
    }
    Ok(())
}
