//! Gives a Service its addresses and ports, once webhooks have had their say.

use super::change::{Change, State, Write};
use super::strategy;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let Change { new, live, .. } = change;
    if write.ctx().info.subresource.is_empty() {
        let live = live.as_ref().map(|live| &live.object);
        strategy::of(write.resource()).allocate(write.writer, state.snapshot, new, live)?;
    }
    Ok(())
}
