//! Values printed as Go's `fmt` prints them: Kubernetes' error texts carry such values.

use std::fmt::Write;

use serde_json::{Number, Value};

/// Go's `%q`.
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
}
