//! The envelope: four bytes of magic, then `runtime.Unknown` with the kind and the message.

use super::DecodeError;
use super::wire::{BYTES, Wire};

/// The first bytes of every envelope.
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
    /// The content type of a message that is not protobuf.
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
    let mut out = Vec::with_capacity(sealed_length(api_version, kind, message.len()));
    open_envelope(&mut out, api_version, kind, message.len());
    out.extend_from_slice(message);
    out.extend_from_slice(&TAIL);
    out
}

/// Go writes the two empty texts behind the message.
pub(super) const TAIL: [u8; 4] = [0x1a, 0, 0x22, 0];

/// Everything of an envelope that stands before its message.
pub(super) fn open_envelope(out: &mut Vec<u8>, api_version: &str, kind: &str, message: usize) {
    out.extend_from_slice(&MAGIC);
    out.push(0x0a);
    varint(out, type_meta_length(api_version, kind));
    for (tag, text) in [(0x0a, api_version), (0x12, kind)] {
        out.push(tag);
        varint(out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    out.push(0x12);
    varint(out, message);
}

fn type_meta_length(api_version: &str, kind: &str) -> usize {
    delimited(api_version.len()) + delimited(kind.len())
}

/// How long an envelope is whose message has that length.
fn sealed_length(api_version: &str, kind: &str, message: usize) -> usize {
    MAGIC.len() + delimited(type_meta_length(api_version, kind)) + delimited(message) + TAIL.len()
}

/// A field of so many bytes, with a tag of one byte and its length.
pub(super) fn delimited(length: usize) -> usize {
    let digits = (length | 1).ilog2() as usize / 7 + 1;
    1 + digits + length
}

pub(super) fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
