//! The envelope: four bytes of magic, then `runtime.Unknown` with the kind and the message.

use super::DecodeError;
use super::back::Back;
use super::wire::{BYTES, Wire};

/// What every envelope starts with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// An opened envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The group and version; empty when the sender left it out.
    pub api_version: String,
    /// The kind; empty when the sender left it out.
    pub kind: String,
    /// The message.
    pub raw: &'a [u8],
    /// How the message is compressed; nobody does.
    pub content_encoding: String,
    /// What the message is, where it is not protobuf.
    pub content_type: String,
}

/// Opens an envelope.
///
/// # Errors
/// When it is none.
pub fn open(data: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    if data.is_empty() {
        return Err(DecodeError::Empty);
    }
    let body = data.strip_prefix(&MAGIC).ok_or(DecodeError::Prefix)?;
    if body.is_empty() {
        return Err(DecodeError::EmptyBody);
    }
    let mut envelope = Envelope {
        api_version: String::new(),
        kind: String::new(),
        raw: &[],
        content_encoding: String::new(),
        content_type: String::new(),
    };
    let mut wire = Wire(body);
    while let Some((number, kind)) = wire.tag()? {
        if !(1..=4).contains(&number) {
            wire.skip(number, kind)?;
            continue;
        }
        if kind != BYTES {
            let field = ["typeMeta", "raw", "contentEncoding", "contentType"][number as usize - 1];
            return Err(DecodeError::Wire { field: field.to_owned(), wire: kind });
        }
        let bytes = wire.bytes()?;
        match number {
            1 => type_meta(bytes, &mut envelope)?,
            2 => envelope.raw = bytes,
            3 => envelope.content_encoding = text(bytes),
            _ => envelope.content_type = text(bytes),
        }
    }
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), DecodeError> {
    let mut wire = Wire(bytes);
    while let Some((number, kind)) = wire.tag()? {
        match (number, kind) {
            (1, BYTES) => envelope.api_version = text(wire.bytes()?),
            (2, BYTES) => envelope.kind = text(wire.bytes()?),
            _ => wire.skip(number, kind)?,
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Puts a message into an envelope.
pub fn seal(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Back::default();
    out.bytes_field(4, b"");
    out.bytes_field(3, b"");
    out.bytes_field(2, message);
    head(api_version, kind, &mut out);
    out.finish()
}

/// Makes what the buffer holds the message of an envelope.
pub(super) fn seal_back(api_version: &str, kind: &str, message: Back) -> Vec<u8> {
    let mut out = message;
    out.close(2, 0);
    head(api_version, kind, &mut out);
    // Go writes the two empty texts behind the message.
    let mut out = out.finish();
    out.extend([0x1a, 0, 0x22, 0]);
    out
}

fn head(api_version: &str, kind: &str, out: &mut Back) {
    let end = out.mark();
    out.bytes_field(2, kind.as_bytes());
    out.bytes_field(1, api_version.as_bytes());
    out.close(1, end);
    out.raw(&MAGIC);
}
