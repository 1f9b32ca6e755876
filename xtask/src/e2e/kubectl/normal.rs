//! Replaces values that differ between any two clusters by their names: identities, times, addresses.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Patterns and what stands for them, in this order.
static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let table = [
        // Said on purpose: this server knows that no controller looks at the kind.
        (r"(?m)^Warning: \S+ are stored and served by this server; nothing acts on them\n", ""),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)", "TIME"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r#"((?:resourceVersion|Resource Version)"?: *)"?\d+"?"#, "${1}VERSION"),
        (r"https?://127\.0\.0\.1:\d+", "SERVER"),
        (r"127\.0\.0\.1:\d+|192\.0\.2\.2:\d+", "ADDRESS"),
        (r"(LIVE|MERGED)-\d+", "$1"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-NAME"),
        (r"gen-[a-z0-9]{5}", "gen-NAME"),
        (r"10\.96\.\d+\.\d+", "CLUSTER-IP"),
        (r"\b3[0-2]\d{3}\b", "NODE-PORT"),
        (r"\b\d+(m\d+)?s\b", "AGE"),
        (r"[ \t]+", " "),
        (r" +\n", "\n"),
    ];
    let compiled = table.map(|(pattern, name)| (Regex::new(pattern).expect("a pattern of ours"), name));
    compiled.into()
});

/// The text without what differs anyway. `folder` is where the command ran.
pub fn normal(text: &str, folder: &str) -> String {
    let mut text = json(&text.replace(folder, "FOLDER"));
    for (pattern, name) in PATTERNS.iter() {
        text = pattern.replace_all(&text, *name).into_owned();
    }
    text
}

/// One line of JSON says the same in any order of its keys.
fn json(text: &str) -> String {
    match text.trim_end().strip_prefix('{') {
        Some(rest) if !rest.contains('\n') => match serde_json::from_str::<Value>(text) {
            Ok(value) => format!("{value}\n"),
            Err(_) => text.to_owned(),
        },
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_anyway_is_named() {
        let text = "a   1s\nresourceVersion: \"12\"\nuid: 01234567-89ab-cdef-0123-456789abcdef\n10.96.3.4:30001 /w/x\n";
        let wanted = "a AGE\nresourceVersion: VERSION\nuid: UID\nCLUSTER-IP:NODE-PORT FOLDER/x\n";
        assert_eq!(normal(text, "/w"), wanted);
        assert_eq!(normal("{\"b\":1,\"a\":2}\n", "/w"), "{\"a\":2,\"b\":1}\n");
    }
}
