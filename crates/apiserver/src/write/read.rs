//! Reads the stored object in the version of the request.

use super::change::{Change, Live, State, Write};
use crate::decision::Decision;
use crate::versions::conversion;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let ctx = write.ctx();
    change.key = ctx.resource.key(&ctx.info.namespace, write.name);
    if let Some(entry) = state.snapshot.get(&change.key) {
        let object = conversion::live(write.writer.conversions.as_ref(), &entry)?;
        change.live = Some(Live { entry, object });
    }
    Ok(())
}
