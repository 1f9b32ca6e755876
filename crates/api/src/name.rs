//! Rules for names, labels and annotation keys, and the generation of names.
//!
//! The checks return what is wrong, in Kubernetes' words; nothing means that the value is good.

use crate::random::Random;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
/// A generated name is cut so that it stays a valid label with its suffix.
const GENERATE_BASE_MAX: usize = 58;
const GENERATE_SUFFIX: usize = 5;

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Which rule a kind's name obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain: most kinds.
    Subdomain,
    /// DNS-1123 label: namespaces, services.
    Label,
    /// DNS-1035 label: starts with a letter.
    Label1035,
    /// Anything that can be one segment of a URL path: roles, bindings.
    PathSegment,
}

impl NameRule {
    /// Returns the faults of `name`. `prefix` says that it is a `generateName`.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        if self == NameRule::PathSegment {
            return path_segment(name, prefix);
        }
        let masked;
        let name = if prefix && name.len() > 1 && name.ends_with('-') {
            // A generated suffix follows, so that a trailing dash is no fault of a prefix.
            masked = format!("{}a", &name[..name.len() - 2]);
            &masked
        } else {
            name
        };
        match self {
            NameRule::Subdomain => dns1123_subdomain(name),
            NameRule::Label => dns1123_label(name),
            NameRule::Label1035 => dns1035_label(name),
            NameRule::PathSegment => Vec::new(),
        }
    }
}

fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    let mut wrong = Vec::new();
    for bad in ["/", "%"] {
        if name.contains(bad) {
            wrong.push(format!("may not contain '{bad}'"));
        }
    }
    wrong
}

/// A regular-expression failure in Kubernetes' words.
pub fn regex_error(words: &str, expression: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{expression}')");
    }
    let examples: Vec<String> = examples.iter().map(|one| format!("'{one}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

fn too_many_characters(most: usize) -> String {
    format!("must be no more than {most} characters")
}

fn too_many_bytes(most: usize) -> String {
    format!("must be no more than {most} bytes")
}

fn label_shaped(name: &[u8]) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    matches!((name.first(), name.last()), (Some(first), Some(last)) if edge(first) && edge(last))
        && name.iter().all(|b| edge(b) || *b == b'-')
}

fn subdomain_shaped(name: &str) -> bool {
    name.split('.').all(|part| label_shaped(part.as_bytes()))
}

/// RFC 1123 label: `my-name`.
pub fn dns1123_label(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(too_many_characters(LABEL_MAX));
    }
    if !label_shaped(name.as_bytes()) {
        wrong.push(if subdomain_shaped(name) {
            "must not contain dots".to_owned()
        } else {
            regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// RFC 1123 subdomain: `example.com`.
pub fn dns1123_subdomain(name: &str) -> Vec<String> {
    subdomain(name, too_many_characters)
}

fn subdomain(name: &str, too_many: fn(usize) -> String) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(too_many(SUBDOMAIN_MAX));
    }
    if !subdomain_shaped(name) {
        wrong.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FMT,
            &["example.com"],
        ));
    }
    wrong
}

/// RFC 1123 subdomain in any case: `Example.com`.
pub fn caseless_subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(too_many_bytes(SUBDOMAIN_MAX));
    }
    if !subdomain_shaped(&name.to_ascii_lowercase()) {
        wrong.push(regex_error(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FMT,
            &["Example.com"],
        ));
    }
    wrong
}

/// RFC 1123 subdomain whose parts may hold and begin with `_`, as search domains have it.
pub fn dns1123_subdomain_with_underscore(name: &str) -> Vec<String> {
    const PART: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(too_many_characters(SUBDOMAIN_MAX));
    }
    let shaped = name.split('.').all(|part| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        edge(part.bytes().next())
            && edge(part.bytes().next_back())
            && part.bytes().all(|b| edge(Some(b)) || matches!(b, b'-' | b'_'))
    });
    if !shaped {
        wrong.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            &format!(r"{PART}(\.{PART})*"),
            &["example.com"],
        ));
    }
    wrong
}

/// RFC 1123 subdomain with a leading `*.`.
pub fn wildcard_dns1123_subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(too_many_characters(SUBDOMAIN_MAX));
    }
    if !name.strip_prefix("*.").is_some_and(subdomain_shaped) {
        wrong.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN_FMT}"),
            &["*.example.com"],
        ));
    }
    wrong
}

/// RFC 1035 label: starts with a letter.
pub fn dns1035_label(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(too_many_characters(LABEL_MAX));
    }
    if !label_shaped(name.as_bytes()) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

fn qualified_shaped(name: &[u8]) -> bool {
    matches!((name.first(), name.last()), (Some(first), Some(last))
        if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Label and annotation keys, finalizers: a name with an optional DNS prefix.
pub fn qualified_name(name: &str) -> Vec<String> {
    let shape = || regex_error(QUALIFIED_WORDS, QUALIFIED_FMT, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let mut parts = name.split('/');
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if third.is_some() {
        return vec![format!(
            "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            shape()
        )];
    }
    let base = match second {
        None => first,
        Some(base) => {
            if first.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                let prefix = subdomain(first, too_many_bytes);
                wrong.extend(prefix.into_iter().map(|one| format!("prefix part {one}")));
            }
            base
        }
    };
    if base.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if base.len() > LABEL_MAX {
        wrong.push(format!("name part {}", too_many_bytes(LABEL_MAX)));
    }
    if !qualified_shaped(base.as_bytes()) {
        wrong.push(format!("name part {}", shape()));
    }
    wrong
}

/// Label values.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(too_many_bytes(LABEL_MAX));
    }
    if !value.is_empty() && !qualified_shaped(value.as_bytes()) {
        wrong.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED_FMT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// Keys of ConfigMap and Secret data.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if key.len() > SUBDOMAIN_MAX {
        wrong.push(too_many_characters(SUBDOMAIN_MAX));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        wrong.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        dots if dots.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// Environment variable names.
pub fn env_var_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        wrong.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    wrong
}

/// Names of ports.
pub fn port_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push(too_many_characters(15));
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// HTTP header names.
pub fn http_header_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Identifiers of the C language.
pub fn c_identifier(name: &str) -> Vec<String> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if first && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Vec::new();
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// Percentages: digits and `%`.
pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%');
    if digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())) {
        return Vec::new();
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// Port numbers.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// Numbers between two bounds, both allowed.
pub fn in_range(number: i64, least: i64, most: i64) -> Vec<String> {
    if (least..=most).contains(&number) {
        Vec::new()
    } else {
        vec![format!("must be between {least} and {most}, inclusive")]
    }
}

/// A name made of a `generateName` and five random characters.
///
/// ```
/// use setpoint_api::{Random, name};
/// let made = name::generate(&"x".repeat(80), &Random::from_seed(1));
/// assert_eq!(made.len(), 63);
/// ```
pub fn generate(base: &str, random: &Random) -> String {
    let mut cut = base.len().min(GENERATE_BASE_MAX);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{}", &base[..cut], random.suffix(GENERATE_SUFFIX))
}

/// The words that CEL reserves: no expression can use one of them as an identifier.
pub const CEL_RESERVED_WORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_judges_them() {
        for good in ["a", "a-b", "0a", "a1"] {
            assert!(dns1123_label(good).is_empty(), "{good}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        for bad in ["", "-a", "a-", "A", "a_b", "é"] {
            assert_eq!(dns1123_label(bad).len(), 1, "{bad}");
            assert_eq!(dns1123_subdomain(bad).len(), 1, "{bad}");
        }
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        assert_eq!(dns1123_subdomain("a..b").len(), 1);
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        assert!(NameRule::Subdomain.check("web-", true).is_empty());
        assert!(!NameRule::Subdomain.check("web-", false).is_empty());
        assert_eq!(NameRule::PathSegment.check("a/b", false), ["may not contain '/'"]);
        assert!(NameRule::PathSegment.check("system:x", false).is_empty());
    }

    #[test]
    fn label_keys_have_one_optional_prefix() {
        assert!(qualified_name("app.kubernetes.io/Name_x").is_empty());
        assert_eq!(qualified_name("/a")[0], "prefix part must be non-empty");
        assert_eq!(qualified_name("a/b/c").len(), 1);
        assert_eq!(qualified_name("a/").len(), 2);
    }
}
