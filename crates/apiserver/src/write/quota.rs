//! Charges the quotas of the namespace. This comes last: what is charged is written in the same transaction.

use super::change::{Change, State, Write};
use crate::admission::quota;
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let writer = write.writer;
    quota::charge(writer.ctx, writer.now, state.snapshot, state.txn, &change.new, change.live_object())?;
    Ok(())
}
