//! A buffer that is written from its end: a message's length is known when it is written, so nothing is measured
//! first.

use super::wire::{BYTES, FIXED64, VARINT};

/// The buffer; what is written next stands before what was written.
#[derive(Default)]
pub(super) struct Back {
    buffer: Vec<u8>,
    /// The start of the written part.
    start: usize,
}

const FIRST: usize = 1024;

impl Back {
    /// How much is written.
    pub(super) fn mark(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn reserve(&mut self, count: usize) {
        if self.start >= count {
            return;
        }
        let written = self.mark();
        let size = (self.buffer.len() * 2).max(FIRST).max(written + count);
        let mut grown = vec![0; size];
        grown[size - written..].copy_from_slice(&self.buffer[self.start..]);
        self.start = size - written;
        self.buffer = grown;
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.start;
        self.start -= bytes.len();
        self.buffer[self.start..end].copy_from_slice(bytes);
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut count = 0;
        loop {
            bytes[count] = (value & 0x7f) as u8 | 0x80;
            count += 1;
            value >>= 7;
            if value == 0 {
                break;
            }
        }
        bytes[count - 1] &= 0x7f;
        self.raw(&bytes[..count]);
    }

    fn tag(&mut self, number: u16, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    pub(super) fn varint_field(&mut self, number: u16, value: u64) {
        self.varint(value);
        self.tag(number, VARINT);
    }

    pub(super) fn double_field(&mut self, number: u16, value: f64) {
        self.raw(&value.to_bits().to_le_bytes());
        self.tag(number, FIXED64);
    }

    pub(super) fn bytes_field(&mut self, number: u16, bytes: &[u8]) {
        self.raw(bytes);
        self.varint(bytes.len() as u64);
        self.tag(number, BYTES);
    }

    /// Puts length and tag before what was written since `end` was marked.
    pub(super) fn close(&mut self, number: u16, end: usize) {
        self.varint((self.mark() - end) as u64);
        self.tag(number, BYTES);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }
}
