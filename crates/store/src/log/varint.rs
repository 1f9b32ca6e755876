//! Numbers and byte strings as the files have them.

use bytes::{Buf, Bytes};

/// Appends `value` in groups of seven bits, lowest first, each but the last with its top bit set.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes`, and then `bytes`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a number off the front; `None` when there is none.
pub(crate) fn take_number(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        if from.is_empty() {
            return None;
        }
        let byte = from.get_u8();
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Takes a byte string off the front. The result is a copy, so it does not keep the input alive.
pub(crate) fn take_bytes(from: &mut &[u8]) -> Option<Bytes> {
    let len = usize::try_from(take_number(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, rest: Vec<u8>) {
            let mut out = Vec::new();
            put_number(&mut out, value);
            out.extend_from_slice(&rest);
            let mut from = out.as_slice();
            prop_assert_eq!(take_number(&mut from), Some(value));
            prop_assert_eq!(from, rest.as_slice());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut from = bytes.as_slice();
            let _ = take_bytes(&mut from);
            prop_assert!(bytes.ends_with(from));
        }
    }
}
