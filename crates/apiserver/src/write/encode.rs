//! Brings the object into the form in which it is stored.

use setpoint_kinds::strategy as rules;

use super::change::{Change, State, Write};
use super::strategy;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
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
