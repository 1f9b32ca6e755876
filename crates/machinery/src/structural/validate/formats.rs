//! The formats of strings that Kubernetes checks.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use regex::Regex;

/// Dashes in a format's name do not matter.
fn plain(format: &str) -> String {
    format.replace('-', "")
}

/// Whether the format is checked at all.
pub(in crate::structural) fn is_known(format: &str) -> bool {
    const KNOWN: [&str; 26] = [
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    KNOWN.contains(&plain(format).as_str())
}

macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("the pattern is valid"));
    };
}

pattern!(
    HOSTNAME,
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
pattern!(UUID, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID3, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$");
pattern!(UUID4, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(UUID5, r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$");
pattern!(SSN, r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
pattern!(HEX_COLOR, r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$");
pattern!(
    RGB_COLOR,
    r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$"
);
pattern!(
    CREDIT_CARD,
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
);
pattern!(DATE, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$");
pattern!(TIME, r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
pattern!(DURATION_PART, r"([0-9]+)\s*([A-Za-zµ]+)");
pattern!(GO_DURATION, r"^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$");
pattern!(SHORT_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$");
pattern!(LONG_NAME, r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$");
pattern!(URI_SCHEME, r"^[a-zA-Z][a-zA-Z0-9+.-]*:");
pattern!(EMAIL, r"^[^\s@<>(),;:\\\[\]]+@[^\s@<>(),;:\\\[\]]+$");

/// Whether the text has the format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match plain(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => {
            HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
        }
        "ipv4" => ipv4(text).is_some() || (text.contains('.') && is_ipv6(text)),
        "ipv6" => text.contains(':') && is_ipv6(text),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID3.is_match(text),
        "uuid4" => UUID4.is_match(text),
        "uuid5" => UUID5.is_match(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "k8sshortname" => text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => text.len() <= 253 && LONG_NAME.is_match(text),
        _ => true,
    }
}

/// An absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if !text.starts_with('/') && !URI_SCHEME.is_match(text) {
        return text == "*";
    }
    let after = text.split_once(':').filter(|_| !text.starts_with('/')).map_or(text, |(_, after)| after);
    if !text.starts_with('/') && !after.starts_with('/') {
        return !after.is_empty() || URI_SCHEME.is_match(text);
    }
    let host =
        after.strip_prefix("//").map_or("", |rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    !host.contains([' ', '<', '>', '"', '^', '`', '{', '}', '|', '\\']) && valid_escapes(after)
}

fn valid_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit))
}

/// An address, alone or after a name in angle brackets.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inner)) => EMAIL.is_match(&inner[open + 1..]),
        _ => EMAIL.is_match(text),
    }
}

/// Four numbers; leading zeros are tolerated.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse::<u32>().ok().and_then(|number| u8::try_from(number).ok())?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = if ipv4(address).is_some() {
        32
    } else if is_ipv6(address) {
        128
    } else {
        return false;
    };
    !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let hex =
        |part: &str, digits: usize| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (separator, digits, counts) in [(':', 2, [6, 8, 20]), ('-', 2, [6, 8, 20]), ('.', 4, [3, 4, 10])] {
        let parts: Vec<&str> = text.split(separator).collect();
        if counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, digits)) {
            return true;
        }
    }
    false
}

fn isbn_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 || !digits[..9].bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .zip(1_u32..)
        .map(|(byte, at)| if byte == b'X' { 10 * at } else { u32::from(byte.wrapping_sub(b'0')) * at })
        .sum();
    let last = digits.as_bytes()[9];
    (last.is_ascii_digit() || last == b'X') && sum.is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = digits.bytes().enumerate().map(|(at, byte)| u32::from(byte - b'0') * [1, 3][at % 2]).sum();
    sum.is_multiple_of(10)
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !CREDIT_CARD.is_match(&digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, byte)| {
            let digit = u32::from(byte - b'0') * [1, 2][at % 2];
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    DATE.is_match(text) && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let Some(parts) = TIME.captures(time) else { return false };
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// Go's durations, or numbers with words for units.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 18] = [
        "ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "nano", "micro", "milli", "sec", "min",
        "hour", "day",
    ];
    if GO_DURATION.is_match(text) || matches!(text, "0" | "+0" | "-0") {
        return true;
    }
    let words = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    DURATION_PART.captures_iter(text).any(|part| {
        let unit = part[2].to_lowercase();
        UNITS.contains(&unit.as_str()) || words.iter().any(|word| unit.starts_with(word))
    })
}
