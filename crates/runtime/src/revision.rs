//! resourceVersions as numbers that can be compared.

/// A resourceVersion as a number. Those of one resource are ordered; the cache compares them.
pub type Revision = u64;

/// Reads a resourceVersion. `None` for one that cannot be ordered: empty, zero, a leading zero, not digits only,
/// or beyond 64 bits.
///
/// ```
/// use setpoint::informer::parse_revision;
/// assert_eq!(parse_revision("42"), Some(42));
/// assert_eq!(parse_revision("0"), None);
/// assert_eq!(parse_revision("restored-7"), None);
/// ```
pub fn parse_revision(resource_version: &str) -> Option<Revision> {
    parse_revision_bytes(resource_version.as_bytes())
}

pub(crate) fn parse_revision_bytes(digits: &[u8]) -> Option<Revision> {
    if digits.first().is_none_or(|first| !(b'1'..=b'9').contains(first)) {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_orderable_versions_are_read() {
        assert_eq!(parse_revision("18446744073709551615"), Some(u64::MAX));
        for text in ["", "0", "01", "1a", "-1", "18446744073709551616", " 1"] {
            assert_eq!(parse_revision(text), None, "{text:?}");
        }
    }
}
