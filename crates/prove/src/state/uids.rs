//! Uids within texts.

/// The lengths of the parts of a uid, which hyphens separate.
const PARTS: [usize; 5] = [8, 4, 4, 4, 12];
/// The length of a uid.
const LENGTH: usize = 36;

/// Returns a text with each uid replaced, or `None` if it has none.
pub fn without(text: &str) -> Option<String> {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(place) = (0..rest.len()).find(|place| is_uid(rest.as_bytes(), *place)) {
        replaced.push_str(&rest[..place]);
        replaced.push_str("<uid>");
        rest = &rest[place + LENGTH..];
    }
    (!replaced.is_empty()).then(|| replaced + rest)
}

fn is_uid(text: &[u8], from: usize) -> bool {
    let Some(text) = text.get(from..from + LENGTH) else { return false };
    let mut parts = text.split(|byte| *byte == b'-');
    let fits =
        |length: usize| move |part: &[u8]| part.len() == length && part.iter().all(u8::is_ascii_hexdigit);
    PARTS.iter().all(|length| parts.next().is_some_and(fits(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uid_is_replaced_and_nothing_else() {
        let uid = "4b6aa72c-41a4-4d60-bd0d-eaa823c01310";
        assert_eq!(without(&format!("é {uid}/{uid}!")).as_deref(), Some("é <uid>/<uid>!"));
        assert_eq!(without(uid).as_deref(), Some("<uid>"));
        assert_eq!(without("4b6aa72c-41a4-4d60-bd0d-eaa823c0131"), None);
        assert_eq!(without("4b6aa72cx41a4-4d60-bd0d-eaa823c01310"), None);
    }
}
