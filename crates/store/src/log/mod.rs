//! The file backend: a log of what was committed, and now and then a checkpoint, so that the log can begin anew.
//! `docs/store-format.md` describes the bytes.

mod writer;
mod checkpoint;
mod recover;
mod frame;
mod names;
mod record;
mod varint;

pub use writer::RESERVED_REVISIONS;
pub(crate) use writer::{Opened, Writer};
