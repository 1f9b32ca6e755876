//! Writing from the start: a message's length goes before it when its end is known.

use super::wire::BYTES;

pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn tag(out: &mut Vec<u8>, number: u16, wire: u8) {
    varint(out, u64::from(number) << 3 | u64::from(wire));
}

pub(super) fn bytes(out: &mut Vec<u8>, number: u16, bytes: &[u8]) {
    tag(out, number, BYTES);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Begins a message: what is written from here on is in it until [`close`] fills in its length.
pub(super) fn open(out: &mut Vec<u8>, number: u16) -> usize {
    tag(out, number, BYTES);
    out.push(0);
    out.len()
}

pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
        return;
    }
    let more = (length.ilog2() / 7) as usize;
    out.extend([0; 9].iter().take(more));
    out.copy_within(start..start + length, start + more);
    let mut rest = length;
    for slot in &mut out[start - 1..start + more] {
        *slot = rest as u8 | 0x80;
        rest >>= 7;
    }
    out[start + more - 1] &= 0x7f;
}

/// As [`close`], with other content for the message.
pub(super) fn close_with(out: &mut Vec<u8>, start: usize, content: &[u8]) {
    out.truncate(start - 1);
    varint(out, content.len() as u64);
    out.extend_from_slice(content);
}
