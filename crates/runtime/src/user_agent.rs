//! The `User-Agent` of an operator's requests, in the form of client-go's.

use std::env::consts::{ARCH, OS};

use http::HeaderValue;

/// The longest name of a field manager that the server takes.
const FIELD_MANAGER_BYTES: usize = 128;

/// `cafe/1.2.0 (linux/x86_64) setpoint/0.1.0`. What no header may hold is left out, and so is a slash in the name: the
/// server takes what precedes the first one for the name.
pub(crate) fn user_agent(name: &str, version: &str) -> HeaderValue {
    let allowed = |text: &str, fallback: &str| -> String {
        let text: String =
            text.chars().filter(|letter| letter.is_ascii_graphic() && *letter != '/').collect();
        if text.is_empty() { fallback.to_owned() } else { text }
    };
    let (name, version) = (allowed(name, "setpoint"), allowed(version, "unknown"));
    let text = format!("{name}/{version} ({OS}/{ARCH}) setpoint/{}", env!("CARGO_PKG_VERSION"));
    HeaderValue::try_from(text).expect("graphic ASCII and spaces are a header's value")
}

/// A name as field manager, in the length that the server takes.
pub(crate) fn field_manager(name: &str) -> &str {
    let end = (0..=FIELD_MANAGER_BYTES.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_named_with_its_version() {
        let of = |name, version| user_agent(name, version).to_str().unwrap().to_owned();
        let own = format!("({OS}/{ARCH}) setpoint/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(of("cafe", "1.2.0"), format!("cafe/1.2.0 {own}"));
        assert_eq!(of("my café/x", ""), format!("mycafx/unknown {own}"));
        assert_eq!(of("\r\n", "1\n"), format!("setpoint/1 {own}"));
    }

    #[test]
    fn a_field_manager_is_cut_between_characters() {
        let long = "é".repeat(100);
        assert_eq!(field_manager(&long).len(), 128);
        assert_eq!(field_manager("cafe"), "cafe");
    }
}
