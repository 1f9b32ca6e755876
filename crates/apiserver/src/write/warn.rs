//! Warns of what is valid and probably not meant.

use setpoint_kinds::warnings;

use super::change::{Change, State, Write};
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let (resource, subresource) = (write.resource(), write.ctx().info.subresource.as_str());
    let custom = resource.custom.is_some();
    if change.live.is_none() || custom || matches!(subresource, "" | "scale") {
        let warnings = warnings::of(&resource.group_kind(), custom, &change.new, change.old());
        change.warnings.extend(warnings);
    }
    Ok(())
}
