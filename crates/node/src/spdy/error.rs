//! Errors of a SPDY connection.

/// The longest frame that is accepted. Go's client writes at most 32 KiB at a time; the wire format allows 16 MiB,
/// which one peer could use to make us hold that much for each connection.
pub const FRAME_BYTES: usize = 1024 * 1024;

/// The reason why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// Longer than this side accepts.
    #[error("a frame of {0} bytes is longer than {FRAME_BYTES}")]
    TooLong(usize),
    /// Another protocol version.
    #[error("SPDY version {0} where 3 was agreed")]
    Version(u16),
    /// A control frame too short for its type.
    #[error("a control frame of type {0} that is cut short")]
    Short(u16),
    /// A header block that does not unpack or parse.
    #[error("a header block that cannot be read")]
    HeaderBlock,
}
