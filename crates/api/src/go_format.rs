//! Values printed as Go's `fmt` and `encoding/json` print them. Kubernetes' error texts carry such values, and some of
//! its data is compared byte by byte.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Number, Value};

/// Text in double quotes as Go's `%q` writes it.
///
/// ```
/// assert_eq!(setpoint_api::go_format::quote("a\"\n"), r#""a\"\n""#);
/// ```
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            _ if is_printable(letter) => out.push(letter),
            _ if (letter as u32) < 0x80 => push(&mut out, format_args!("\\x{:02x}", letter as u32)),
            _ if (letter as u32) <= 0xffff => push(&mut out, format_args!("\\u{:04x}", letter as u32)),
            _ => push(&mut out, format_args!("\\U{:08x}", letter as u32)),
        }
    }
    out.push('"');
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string never fails");
}

/// An approximation of Go's `strconv.IsPrint`: control, format, surrogate and private characters and all
/// spaces but the plain one are not.
fn is_printable(letter: char) -> bool {
    match letter as u32 {
        0x20 => true,
        0xad
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x206f
        | 0xfeff
        | 0xe000..=0xf8ff
        | 0xf_0000.. => false,
        _ => !letter.is_control() && !letter.is_whitespace(),
    }
}

/// Go's `%v` of a number.
pub fn number(number: &Number) -> String {
    if number.is_f64() { float(number.as_f64().unwrap_or(0.0)) } else { number.to_string() }
}

/// Go's `%v` of a float64: the shortest text, with an exponent when that is below -4 or at least 6.
pub fn float(value: f64) -> String {
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').expect("Rust's exponent form has an e");
    let exponent: i32 = exponent.parse().expect("the exponent is a whole number");
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Go's `%v` of decoded JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// The Go type that JSON decodes into, as `%T` prints it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%#v` of decoded JSON.
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}:{}", quote(name), syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => plain(other),
    }
}

/// Escapes what Go's `encoding/json` escapes, though JSON would not need it: what could mean something in HTML or
/// JavaScript. Some of Kubernetes compares JSON byte by byte, the `data` of a ControllerRevision for one.
///
/// ```
/// use setpoint_api::go_format::escape_json;
/// assert_eq!(escape_json(r#"{"a":"b<c"}"#), r#"{"a":"b\u003cc"}"#);
/// ```
pub fn escape_json(json: &str) -> Cow<'_, str> {
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

/// JSON as Go's `encoding/json` writes it: some characters are [escaped](escape_json), and floats have Go's form.
pub fn json(value: &Value) -> String {
    let mut out = Vec::with_capacity(64);
    let written = value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, GoFloats));
    written.expect("a JSON value is written to memory without an error");
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    match escape_json(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

/// Go's floats in JSON: whole numbers have no fraction, and there is an exponent below 1e-6 and from 1e21 on.
struct GoFloats;

impl Formatter for GoFloats {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        if size == 0.0 || (1e-6..1e21).contains(&size) {
            return write!(writer, "{value}");
        }
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific.split_once('e').expect("Rust's exponent form has an e");
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(writer, "{digits}e{sign}{exponent}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn numbers_and_text_print_as_in_go() {
        assert_eq!(super::float(1e21), "1e+21");
        assert_eq!(super::float(123_456.5), "123456.5");
        assert_eq!(super::float(1_000_000.0), "1e+06");
        assert_eq!(super::float(0.00001), "1e-05");
        assert_eq!(super::float(1.5), "1.5");
        assert_eq!(super::float(3.0), "3");
        assert_eq!(super::quote("a\"b\n\u{1}é\u{200b}"), "\"a\\\"b\\n\\x01é\\u200b\"");
        assert_eq!(
            super::plain(&json!({"b": [1, "x", null], "a": {"c": true}})),
            "map[a:map[c:true] b:[1 x <nil>]]"
        );
    }

    #[test]
    fn json_is_written_as_in_go() {
        let value = json!({"a<": [1.0, 1e21, 1e-7, 1.5e-9, -0.0, 0.000001, 12345678901234567890.0_f64, 3]});
        assert_eq!(
            super::json(&value),
            "{\"a\\u003c\":[1,1e+21,1e-7,1.5e-9,-0,0.000001,12345678901234567000,3]}"
        );
    }

    #[test]
    fn json_is_spelled_as_go_spells_it_and_means_the_same() {
        let value = serde_json::json!({ "a<b": "c>d & \u{2028}\u{2029} \u{20ac}", "plain": "\"\\u003c\"" });
        let text = value.to_string();
        let written = super::escape_json(&text);
        assert_eq!(
            written,
            "{\"a\\u003cb\":\"c\\u003ed \\u0026 \\u2028\\u2029 \u{20ac}\",\"plain\":\"\\\"\\\\u003c\\\"\"}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        assert!(matches!(super::escape_json(r#"{"a":1}"#), std::borrow::Cow::Borrowed(_)));
    }
}
