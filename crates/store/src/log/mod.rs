//! The file backend: a log of commits, and a checkpoint from time to time so that the log can start anew.
//! `docs/store-format.md` describes the bytes.

mod writer;
mod save;
mod checkpoint;
mod recover;
mod frame;
mod names;
mod record;
mod varint;

pub(crate) use save::save;
pub use writer::RESERVED_REVISIONS;
pub(crate) use writer::{Opened, Writer};
