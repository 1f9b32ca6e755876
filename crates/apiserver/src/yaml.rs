//! YAML as Go's library writes it: block style, sorted keys, quotes only where a reader would need them.

use serde_json::Value;

/// A text that is no YAML.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(pub(crate) String);

/// A value as a YAML document.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => sequence(&mut out, value, 0),
        scalar => {
            out.push_str(&inline(scalar, 0));
            out.push('\n');
        }
    }
    out
}

fn mapping(out: &mut String, value: &Value, indent: usize) {
    for (at, (key, value)) in value.as_object().into_iter().flatten().enumerate() {
        if at > 0 || !out.ends_with("- ") {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        let plain = is_plain(key);
        out.push_str(&if plain { key.clone() } else { Value::from(key.as_str()).to_string() });
        out.push(':');
        field(out, value, indent);
    }
}

fn field(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            mapping(out, value, indent + 2);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            sequence(out, value, indent);
        }
        scalar => {
            out.push(' ');
            out.push_str(&inline(scalar, indent));
            out.push('\n');
        }
    }
}

fn sequence(out: &mut String, value: &Value, indent: usize) {
    for (at, item) in value.as_array().into_iter().flatten().enumerate() {
        if at > 0 || !out.ends_with("- ") {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(out, item, indent + 2),
            Value::Array(items) if !items.is_empty() => sequence(out, item, indent + 2),
            scalar => {
                out.push_str(&inline(scalar, indent));
                out.push('\n');
            }
        }
    }
}

fn inline(value: &Value, indent: usize) -> String {
    match value {
        Value::String(string) => text(string, indent),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

/// Text, plain where it reads back as text, literal where it has lines, else in quotes.
fn text(string: &str, indent: usize) -> String {
    let printable = string.chars().all(|c| !c.is_control() || c == '\n');
    let literal = printable && !string.starts_with([' ', '\n']) && !string.ends_with("\n\n");
    if string.contains('\n') && literal {
        let mut out = if string.ends_with('\n') { "|" } else { "|-" }.to_owned();
        for line in string.trim_end_matches('\n').split('\n') {
            out.push('\n');
            if !line.is_empty() {
                out.extend(std::iter::repeat_n(' ', indent + 2));
                out.push_str(line);
            }
        }
        return out;
    }
    if is_plain(string) { string.to_owned() } else { Value::from(string).to_string() }
}

fn is_plain(string: &str) -> bool {
    const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"];
    let lower = string.to_ascii_lowercase();
    let like_number = string.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && string.chars().any(|c| c.is_ascii_digit())
        && string.chars().all(|c| c.is_ascii_alphanumeric() || "+-._:TZ".contains(c));
    let starts = string.starts_with(|c: char| "-?:,[]{}#&*!|>'\"%@`= ".contains(c));
    !string.is_empty()
        && !starts
        && !string.ends_with([' ', ':'])
        && !string.contains(": ")
        && !string.contains(" #")
        && !like_number
        && !WORDS.contains(&lower.as_str())
        && string.chars().all(|c| !c.is_control())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_read_as_kubernetes_writes_them() {
        let value = json!({"apiVersion": "v1", "data": {"a": "b", "lines": "x\ny\n", "n": "5", "t": "true"},
            "list": [{"f:data": {".": {}}, "k": [1, "z"]}, "plain"], "empty": {}, "none": [],
            "time": "2026-01-01T00:00:00Z"});
        let expected = "apiVersion: v1\ndata:\n  a: b\n  lines: |\n    x\n    y\n  \"n\": \"5\"\n  t: \"true\"\n\
                        empty: {}\nlist:\n- f:data:\n    .: {}\n  k:\n  - 1\n  - z\n- plain\nnone: []\n\
                        time: \"2026-01-01T00:00:00Z\"\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn whatever_is_written_reads_back() {
        let texts = [
            "", " a", "a: b", "- x", "#", "0x1f", "1e3", "null", "a #b", "tab\tx", "é", "\n", "a\n\n", "'q'",
            "*a", "=", "x:",
        ];
        for text in texts {
            let value = json!({"k": text, "l": [text, {"m": text}]});
            let read: Value = serde_saphyr::from_str(&to_yaml(&value)).unwrap();
            assert_eq!(read, value, "{}", to_yaml(&value));
        }
    }
}
