//! JSON as Go's encoder spells it.

use std::borrow::Cow;

/// Escapes what Go escapes, though JSON would not need it: what could mean something in HTML or JavaScript. Some of
/// Kubernetes compares JSON byte by byte, the `data` of a ControllerRevision for one.
///
/// ```
/// use setpoint_api::spelling::as_go_writes;
/// assert_eq!(as_go_writes(r#"{"a":"b<c"}"#), r#"{"a":"b\u003cc"}"#);
/// ```
pub fn as_go_writes(json: &str) -> Cow<'_, str> {
    // None of them stands outside a string. U+2028 and U+2029 begin with this byte, which is rare otherwise.
    let suspect = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | 0xe2);
    if !json.as_bytes().iter().any(suspect) {
        return Cow::Borrowed(json);
    }
    let mut written = String::with_capacity(json.len() + 32);
    for character in json.chars() {
        match character {
            '<' => written.push_str("\\u003c"),
            '>' => written.push_str("\\u003e"),
            '&' => written.push_str("\\u0026"),
            '\u{2028}' => written.push_str("\\u2028"),
            '\u{2029}' => written.push_str("\\u2029"),
            character => written.push(character),
        }
    }
    Cow::Owned(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_spelled_as_go_spells_it_and_means_the_same() {
        let value = serde_json::json!({ "a<b": "c>d & \u{2028}\u{2029} \u{20ac}", "plain": "\"\\u003c\"" });
        let text = value.to_string();
        let written = as_go_writes(&text);
        assert_eq!(
            written,
            "{\"a\\u003cb\":\"c\\u003ed \\u0026 \\u2028\\u2029 \u{20ac}\",\"plain\":\"\\\"\\\\u003c\\\"\"}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        assert!(matches!(as_go_writes(r#"{"a":1}"#), Cow::Borrowed(_)));
    }
}
