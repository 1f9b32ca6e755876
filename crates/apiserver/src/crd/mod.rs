//! The life of CustomResourceDefinitions: how they come and go.

mod cleanup;
mod names;
mod validate;

pub(crate) use cleanup::{cleanup_after, on_delete};
pub(crate) use names::{begin, note_stored_version, settle_after};
pub(crate) use validate::validate;
