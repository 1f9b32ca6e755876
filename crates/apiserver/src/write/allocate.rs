//! Gives a Service its addresses and ports, once webhooks have had their say.

use super::change::{Change, State, Write};
use crate::admission::service;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let Change { new, live, .. } = change;
    if write.resource().is("", "services") && write.ctx().info.subresource.is_empty() {
        let live = live.as_ref().map(|live| &live.object);
        let writer = write.writer;
        let of_request = (writer.ctx, &writer.options, &writer.random());
        service::allocate(of_request, state.snapshot, new, live)?;
    }
    Ok(())
}
