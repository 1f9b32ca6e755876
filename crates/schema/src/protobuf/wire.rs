//! Protobuf's wire format: tags, varints, lengths.

use super::DecodeError;

/// Wire types.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// A cursor over one message.
pub(super) struct Wire<'a>(pub &'a [u8]);

impl<'a> Wire<'a> {
    /// The next field's number and wire type, or the end.
    pub(super) fn tag(&mut self) -> Result<Option<(u64, u8)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, (tag & 7) as u8);
        if number == 0 || number > 0x1fff_ffff || wire == END_GROUP {
            return Err(DecodeError::Tag { number, wire });
        }
        Ok(Some((number, wire)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.0.split_first().ok_or(DecodeError::Truncated)?;
            self.0 = rest;
            value |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
        self.take(count)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
        Ok(u64::from_le_bytes(bytes))
    }

    /// Takes a field with `each`, and all that follow with the same number.
    pub(super) fn run(
        &mut self,
        number: u64,
        mut kind: u8,
        mut each: impl FnMut(&mut Self, u8) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        loop {
            each(self, kind)?;
            let mut ahead = Wire(self.0);
            match ahead.tag()? {
                Some((next, wire)) if next == number => (self.0, kind) = (ahead.0, wire),
                _ => return Ok(()),
            }
        }
    }

    /// Passes by a field that the message does not have.
    pub(super) fn skip(&mut self, number: u64, wire: u8) -> Result<(), DecodeError> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            BYTES => self.bytes().map(drop),
            FIXED32 => self.take(4).map(drop),
            START_GROUP => self.skip_group(),
            _ => Err(DecodeError::Tag { number, wire }),
        }
    }

    fn skip_group(&mut self) -> Result<(), DecodeError> {
        let mut open = 1usize;
        while open > 0 {
            let tag = self.varint()?;
            match (tag & 7) as u8 {
                START_GROUP => open += 1,
                END_GROUP => open -= 1,
                wire => self.skip(tag >> 3, wire)?,
            }
        }
        Ok(())
    }
}

/// A message's bytes field, where it is the only one that counts (`RawExtension`, `Quantity`).
pub(super) fn only_bytes(data: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let mut wire = Wire(data);
    let mut found = None;
    while let Some((number, kind)) = wire.tag()? {
        match (number, kind) {
            (1, BYTES) => found = Some(wire.bytes()?),
            (1, wire) => return Err(DecodeError::Wire { field: "raw".to_owned(), wire }),
            _ => wire.skip(number, kind)?,
        }
    }
    Ok(found)
}
