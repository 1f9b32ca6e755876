//! Errors without a type, and kinds that the write path knows by name.

use super::ratchets::Ratchets;

/// A signature whose error is a text: no caller can tell one refusal from another.
pub const TEXT_ERRORS: &str = "text-errors";
/// A stage of a write that asks which kind it has, outside of `write/strategy`.
pub const KINDS_BY_NAME: &str = "kinds-by-name";

const WRITE_PATH: &str = "crates/apiserver/src/write/";
const STRATEGY: &str = "crates/apiserver/src/write/strategy/";

/// Counts both in one file.
pub fn count(file: &str, text: &str, ratchets: &mut Ratchets) {
    let is_test = file.contains("/tests/") || file.ends_with("tests.rs");
    let Some(krate) = krate(file).filter(|_| !is_test) else { return };
    // Unit tests stand at the end of a file.
    let product = text.lines().take_while(|line| *line != "#[cfg(test)]");
    for (number, line) in product.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
        let found = || format!("{file}:{}: {}", number + 1, line.trim());
        if has_text_error(line) {
            ratchets.count(TEXT_ERRORS, &krate, found());
        }
        if file.starts_with(WRITE_PATH) && !file.starts_with(STRATEGY) && line.contains(".is(\"") {
            ratchets.count(KINDS_BY_NAME, &krate, found());
        }
    }
}

fn krate(file: &str) -> Option<String> {
    let name = file.strip_prefix("crates/")?.split_once("/src/")?.0;
    Some(format!("crates/{name}"))
}

fn has_text_error(line: &str) -> bool {
    line.split("Result<").skip(1).any(|rest| second_argument(rest) == Some("String"))
}

/// The second argument of a generic type whose arguments begin here.
fn second_argument(arguments: &str) -> Option<&str> {
    let (mut depth, mut first) = (0, None);
    for (at, letter) in arguments.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            ',' if depth == 0 => first = Some(at + 1),
            '>' if depth == 0 => return first.map(|first| arguments[first..at].trim()),
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_second_argument_of_a_result() {
        for text in [
            "fn a() -> Result<(), String> {",
            "Option<Result<Vec<(A, B)>, String>>",
            "Result<Option<(Value, Schema)>, String>;",
            "std::result::Result<Verified, String>",
        ] {
            assert!(has_text_error(text), "{text}");
        }
        for text in [
            "Result<String, Error>",
            "Result<BTreeMap<String, String>, Error>",
            "Result<String>",
            "(A, String)",
        ] {
            assert!(!has_text_error(text), "{text}");
        }
    }

    #[test]
    fn only_product_code_of_crates_counts() {
        let mut ratchets = Ratchets::default();
        let text = "fn a() -> Result<(), String> {\n    resource.is(\"\", \"pods\");\n}\n#[cfg(test)]\nmod tests {\n    \
                    fn b() -> Result<(), String> {}\n}\n";
        for file in
            ["crates/apiserver/src/write/a.rs", "crates/apiserver/src/write/strategy/a.rs", "xtask/src/a.rs"]
        {
            count(file, text, &mut ratchets);
        }
        count("crates/apiserver/tests/it/a.rs", text, &mut ratchets);
        assert_eq!(ratchets.counted(TEXT_ERRORS, "crates/apiserver"), 2);
        assert_eq!(ratchets.counted(KINDS_BY_NAME, "crates/apiserver"), 1);
    }
}
