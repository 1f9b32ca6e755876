//! SPDY/3.1, as far as kubectl's exec, attach and port-forward speak it: a pure framer, bytes in, frames out.
//!
//! Peers of this protocol keep no flow-control windows (Go's spdystream ignores them), so neither does this.

mod connection;
mod frame;
mod header;
mod dictionary;
mod error;

pub use connection::{Connection, Stream, StreamReader, StreamWriter};
#[cfg(test)]
pub use frame::{Frame, FrameReader, FrameWriter};
#[cfg(test)]
pub use header::Headers;
