//! The file backend: a log of what was committed, and now and then a checkpoint, so that the log can begin anew.
//! `docs/store-format.md` describes the bytes.

mod checkpoint;
mod frame;
mod names;
mod record;
mod recover;
mod varint;
mod writer;

pub use writer::RESERVED_REVISIONS;
pub(crate) use writer::{Opened, Writer};
