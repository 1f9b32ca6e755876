//! A text as what differs from another one.
//!
//! Objects of one workload differ in names, addresses, times and ids: what differs is a tenth of an object and is found
//! in a fraction of the time that compressing takes. Nothing here knows JSON; quotes are only where two texts are likely
//! to agree again, so a wrong guess costs bytes and never changes what comes out.

use memchr::{memchr, memmem};

/// Equal bytes that are taken for a place where both texts go on alike.
const ANCHOR: usize = 12;
/// How far such a place is searched for when something was put in or left out.
const REACH: usize = 2048;
/// Texts that most values are written in, sixteen characters each: half a byte a character.
const ALPHABETS: [&[u8; 16]; 2] = [b"0123456789abcdef", b"0123456789.:-TZ/"];
/// Shorter texts are not worth it.
const SHORTEST_PACKED: usize = 4;
/// The place of each character in each alphabet.
const DIGITS: [[u8; 256]; 2] = [digits(ALPHABETS[0]), digits(ALPHABETS[1])];
/// No character of an alphabet.
const FOREIGN: u8 = 0xff;

const fn digits(alphabet: &[u8; 16]) -> [u8; 256] {
    let mut digits = [FOREIGN; 256];
    let mut digit = 0;
    while digit < alphabet.len() {
        digits[alphabet[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
}

/// Appends to `patch` what makes `new` out of `base`; false when that takes more than `limit` bytes, and `patch` is of
/// no use then.
///
/// A patch is a row of steps: bytes to copy from the base, then bytes of it to leave out, then bytes to put in.
pub(super) fn difference(base: &[u8], new: &[u8], limit: usize, patch: &mut Vec<u8>) -> bool {
    let (mut base, mut new) = (base, new);
    while !new.is_empty() {
        let equal = common_prefix(base, new);
        (base, new) = (&base[equal..], &new[equal..]);
        let (skip, insert) = agree_again(base, new);
        if patch.len() + insert / 2 > limit {
            return false;
        }
        write_step(patch, equal, skip, &new[..insert]);
        (base, new) = (&base[skip..], &new[insert..]);
    }
    patch.len() <= limit
}

/// Makes the text of `length` bytes that `patch` was made for; `None` if it was not made for `base`.
pub(super) fn apply(base: &[u8], patch: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(length);
    let (mut base, mut patch) = (base, patch);
    while !patch.is_empty() {
        let equal = read_number(&mut patch)?;
        text.extend_from_slice(base.get(..equal)?);
        let insert = read_number(&mut patch)?;
        let (insert, alphabet, same) = (insert >> 3, insert >> 1 & 3, insert & 1 == 1);
        let skip = if same { insert } else { read_number(&mut patch)? };
        base = base.get(equal + skip..)?;
        let stored = if alphabet == 0 { insert } else { insert.div_ceil(2) };
        let (bytes, rest) = patch.split_at_checked(stored)?;
        match alphabet.checked_sub(1) {
            None => text.extend_from_slice(bytes),
            Some(alphabet) => unpack(ALPHABETS.get(alphabet)?, bytes, insert, &mut text),
        }
        patch = rest;
    }
    (text.len() == length).then_some(text)
}

fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    const WORD: usize = size_of::<u64>();
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a chunk is a word long"));
    let mut equal = 0;
    for (left, right) in left.chunks_exact(WORD).zip(right.chunks_exact(WORD)) {
        let differing = word(left) ^ word(right);
        if differing != 0 {
            return equal + differing.trailing_zeros() as usize / 8;
        }
        equal += WORD;
    }
    equal + left[equal..].iter().zip(&right[equal..]).take_while(|(left, right)| left == right).count()
}

/// How much of each text to pass so that both go on alike; all of it where they never do.
fn agree_again(base: &[u8], new: &[u8]) -> (usize, usize) {
    let (mut in_base, mut in_new) = (0, 0);
    loop {
        let quote = |text: &[u8], from: usize| memchr(b'"', &text[from..]).map(|at| from + at);
        let (Some(base_quote), Some(new_quote)) = (quote(base, in_base), quote(new, in_new)) else {
            return (base.len(), new.len());
        };
        let (base_rest, new_rest) = (&base[base_quote..], &new[new_quote..]);
        let goes_on = |rest: &[u8]| rest.len().min(ANCHOR);
        let (base_anchor, new_anchor) = (&base_rest[..goes_on(base_rest)], &new_rest[..goes_on(new_rest)]);
        if base_anchor == new_anchor {
            return (base_quote, new_quote);
        }
        let find = |text: &[u8], anchor: &[u8]| memmem::find(&text[..text.len().min(REACH)], anchor);
        match (find(base_rest, new_anchor), find(new_rest, base_anchor)) {
            (Some(left_out), Some(put_in)) if left_out <= put_in => {
                return (base_quote + left_out, new_quote);
            }
            (Some(left_out), None) => return (base_quote + left_out, new_quote),
            (_, Some(put_in)) => return (base_quote, new_quote + put_in),
            (None, None) => (in_base, in_new) = (base_quote + 1, new_quote + 1),
        }
    }
}

fn write_step(patch: &mut Vec<u8>, equal: usize, skip: usize, insert: &[u8]) {
    let fits = |digits: &[u8; 256]| insert.iter().all(|byte| digits[usize::from(*byte)] != FOREIGN);
    let alphabet = if insert.len() < SHORTEST_PACKED { None } else { DIGITS.iter().position(fits) };
    let same = skip == insert.len();
    write_number(patch, equal);
    write_number(
        patch,
        insert.len() << 3 | alphabet.map_or(0, |alphabet| alphabet + 1) << 1 | usize::from(same),
    );
    if !same {
        write_number(patch, skip);
    }
    match alphabet {
        None => patch.extend_from_slice(insert),
        Some(alphabet) => pack(&DIGITS[alphabet], insert, patch),
    }
}

fn pack(digits: &[u8; 256], text: &[u8], patch: &mut Vec<u8>) {
    let digit = |byte: &u8| digits[usize::from(*byte)];
    patch.extend(text.chunks(2).map(|pair| (digit(&pair[0]) << 4) | pair.get(1).map_or(0, digit)));
}

fn unpack(alphabet: &[u8; 16], bytes: &[u8], length: usize, text: &mut Vec<u8>) {
    let end = text.len() + length;
    for byte in bytes {
        text.extend([alphabet[usize::from(byte >> 4)], alphabet[usize::from(byte & 15)]]);
    }
    text.truncate(end);
}

fn write_number(patch: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        patch.push(number as u8 | 0x80);
        number >>= 7;
    }
    patch.push(number as u8);
}

fn read_number(patch: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, rest) = patch.split_first()?;
        *patch = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pod(number: u64, statuses: &str) -> String {
        let id =
            |salt: u64| format!("{:016x}", (number + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4);
        format!(
            r#"{{"kind":"Pod","metadata":{{"name":"web-{number}","uid":"{}","creationTimestamp":"2026-01-02T03:{:02}:05Z"}},"spec":{{"containers":[{{"name":"main","image":"registry.example.com/web@sha256:0123456789abcdef","args":["--port=80","--verbose"]}}],"nodeName":"node-{}"}},"status":{{"podIP":"10.1.2.{}"{statuses},"containerID":"{}"}}}}"#,
            &id(1)[..36],
            number % 60,
            number % 7,
            number % 256,
            id(2)
        )
    }

    fn round_trip(base: &[u8], new: &[u8]) -> usize {
        let mut patch = Vec::new();
        assert!(difference(base, new, usize::MAX, &mut patch));
        assert_eq!(apply(base, &patch, new.len()).as_deref(), Some(new));
        patch.len()
    }

    #[test]
    fn siblings_differ_in_little() {
        let (base, new) = (pod(1, ""), pod(4711, ""));
        assert!(round_trip(base.as_bytes(), new.as_bytes()) < 130);
        assert_eq!(round_trip(base.as_bytes(), base.as_bytes()), 3);
        let more = pod(4711, r#","phase":"Running","conditions":[{"type":"Ready","status":"True"}]"#);
        assert!(round_trip(base.as_bytes(), more.as_bytes()) < 210, "something was put in");
        assert!(round_trip(more.as_bytes(), base.as_bytes()) < 150, "something was left out");
    }

    #[test]
    fn texts_without_anything_in_common_are_refused() {
        let (base, new) = (pod(1, ""), "x".repeat(1000));
        assert!(!difference(base.as_bytes(), new.as_bytes(), 200, &mut Vec::new()));
        assert_eq!(apply(b"short", &[9, 0, 0], 9), None, "a patch of another base");
        assert_eq!(apply(b"", &[0x80], 0), None, "a patch cut short");
    }

    proptest! {
        #[test]
        fn every_text_comes_out_as_it_was(
            base in r#"[ab0-9"]{0,80}"#,
            new in r#"[ab0-9"]{0,80}"#,
            cut in 0usize..80,
        ) {
            round_trip(base.as_bytes(), new.as_bytes());
            // Near relatives, too: the end of one behind the beginning of the other.
            let mixed = format!("{}{}", &base[..cut.min(base.len())], &new[cut.min(new.len())..]);
            round_trip(base.as_bytes(), mixed.as_bytes());
            round_trip(mixed.as_bytes(), base.as_bytes());
        }
    }
}
