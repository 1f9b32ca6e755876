//! Makes the new object of the body and the stored object, as the verb or the subresource has it.

use super::change::{Change, State, Write};
use crate::decision::Decision;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    write.merge.merge(write, state, change)
}
