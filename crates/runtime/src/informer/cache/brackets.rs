//! Finds where a JSON object or array ends, 64 bytes at a time.
//!
//! Much of what is skipped of an object is managedFields: short texts and brackets, so that a search for each next
//! quote costs more than to look at every byte.

use wide::u8x16;

/// One bit for each of 64 bytes that is of a kind.
#[derive(Default)]
struct Block {
    quotes: u64,
    backslashes: u64,
    opening: u64,
    closing: u64,
}

impl Block {
    fn read(bytes: &[u8; 64]) -> Self {
        let mut block = Block::default();
        for (place, part) in bytes.as_chunks::<16>().0.iter().enumerate() {
            let part = u8x16::new(*part);
            // In ASCII braces are brackets with this bit.
            let folded = part | u8x16::splat(0x20);
            let equal = |bytes: u8x16, byte: u8| {
                let mask = bytes.cmp_eq(u8x16::splat(byte)).move_mask();
                u64::from(mask as u16) << (16 * place)
            };
            block.quotes |= equal(part, b'"');
            block.backslashes |= equal(part, b'\\');
            block.opening |= equal(folded, b'{');
            block.closing |= equal(folded, b'}');
        }
        block
    }
}

/// The position in the reading of a container, between two blocks.
#[derive(Default)]
struct Place {
    depth: usize,
    /// All ones inside a text.
    text: u64,
    /// One if the first byte of the next block is escaped.
    escape: u64,
}

impl Place {
    /// Goes on behind `block`; gives the place in it behind which the container has ended.
    fn pass(&mut self, block: &Block) -> Option<usize> {
        let quotes = block.quotes & !self.escaped(block.backslashes);
        // Each quote turns what follows it from text to no text or back.
        let texts = (0..6).fold(quotes, |texts, power| texts ^ texts << (1 << power)) ^ self.text;
        self.text = if texts >> 63 == 1 { u64::MAX } else { 0 };
        let (opening, closing) = (block.opening & !texts, block.closing & !texts);
        // Most are `{}`, which changes nothing.
        let empty = opening & closing >> 1;
        let (opening, closing) = (opening & !empty, closing & !(empty << 1));
        if self.depth == 0 && empty & 1 == 1 {
            return Some(2);
        }
        let mut brackets = opening | closing;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            if opening >> at & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(at as usize + 1);
                }
            }
            brackets &= brackets - 1;
        }
        None
    }

    /// The bytes that a backslash stands before which is not escaped itself.
    fn escaped(&mut self, backslashes: u64) -> u64 {
        let mut escaped = self.escape;
        self.escape = 0;
        let mut escaping = backslashes & !escaped;
        while escaping != 0 {
            let at = escaping.trailing_zeros();
            let next = 2 << at;
            if next == 0 {
                self.escape = 1;
            }
            escaped |= next;
            escaping &= (escaping - 1) & !next;
        }
        escaped
    }
}

/// How many bytes the object or array takes that `bytes` begin with; `None` if it does not end.
///
/// It does not check what it passes. Text that is no JSON gives some place or none.
pub(super) fn container(bytes: &[u8]) -> Option<usize> {
    let mut place = Place::default();
    let (blocks, rest) = bytes.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        if let Some(end) = place.pass(&Block::read(block)) {
            return Some(number * 64 + end);
        }
    }
    let mut last = [b' '; 64];
    last[..rest.len()].copy_from_slice(rest);
    place.pass(&Block::read(&last)).map(|end| blocks.len() * 64 + end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One byte after the other.
    fn simple(bytes: &[u8]) -> Option<usize> {
        let (mut depth, mut text, mut escaped) = (0, false, false);
        for (at, byte) in bytes.iter().enumerate() {
            let was_escaped = std::mem::take(&mut escaped);
            match byte {
                b'\\' => escaped = !was_escaped,
                b'"' if !was_escaped => text = !text,
                b'{' | b'[' if !text => depth += 1,
                b'}' | b']' if !text => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    #[test]
    fn a_container_ends_at_its_own_bracket() {
        for (json, end) in [
            ("{}", Some(2)),
            ("[],{}", Some(2)),
            ("[ ]]", Some(3)),
            (r#"{"a":{}}}"#, Some(8)),
            (r#"{"a":"}"}"#, Some(9)),
            (r#"{"a":"\"}"}"#, Some(11)),
            (r#"{"a":"\\"}"}"#, Some(10)),
            ("{", None),
            (r#"{"a":"}"#, None),
        ] {
            assert_eq!(container(json.as_bytes()), end, "{json}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Whatever the bytes are, and wherever the blocks begin.
        #[test]
        fn it_ends_where_reading_byte_by_byte_does(
            parts in prop::collection::vec(
                prop::sample::select(vec!["{", "}", "[", "]", "{}", "\"", "\\", "\\\\", "\\\"", "a", "\"f:x\":{},", " "]),
                0..200,
            ),
            fill in 0usize..70,
        ) {
            let json = format!("{{{}{}", "x".repeat(fill), parts.concat());
            prop_assert_eq!(container(json.as_bytes()), simple(json.as_bytes()), "{}", json);
        }
    }
}
