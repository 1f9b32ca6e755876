//! Warns of what is valid and probably not meant.

use super::change::{Change, State, Write};
use super::strategy;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let warnings = strategy::of(resource).warnings(resource, subresource, &change.new, change.old());
    change.warnings.extend(warnings);
    Ok(())
}
