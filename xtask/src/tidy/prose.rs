//! How doc comments begin: with their subject.

use super::ratchets::Ratchets;

pub const RULE: &str = "doc-lines-without-subject";

/// Words that put the subject of a sentence off.
const OPENINGS: &[&str] = &["What", "Who", "Whoever", "Of", "Where", "That which"];

/// Counts the doc lines of one file, by crate.
pub fn count(file: &str, text: &str, ratchets: &mut Ratchets) {
    let place = of_crate(file);
    for (number, line) in text.lines().enumerate() {
        if let Some(opening) = opening(line) {
            let found =
                format!("{file}:{}: a doc line begins with `{opening}`: begin with the subject", number + 1);
            ratchets.count(RULE, &place, found);
        }
    }
}

/// `crates/store` of `crates/store/src/log/mod.rs`; `xtask` is one by itself.
fn of_crate(file: &str) -> String {
    let folders = if file.starts_with("xtask/") { 1 } else { 2 };
    file.split('/').take(folders).collect::<Vec<_>>().join("/")
}

fn opening(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    let words = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
    let begins = |opening: &&&str| {
        words.strip_prefix(**opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    OPENINGS.iter().find(begins).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_at_the_beginning_of_doc_lines_count() {
        let found: Vec<Option<&str>> = [
            "    /// What is kept.",
            "//! Who's there",
            "/// That which is not.",
            "/// Often the same.",
            "/// The answer. What else?",
            "// What a comment says.",
        ]
        .map(opening)
        .to_vec();
        assert_eq!(found, [Some("What"), Some("Who"), Some("That which"), None, None, None]);
        assert_eq!(of_crate("crates/store/src/log/mod.rs"), "crates/store");
        assert_eq!(of_crate("xtask/src/main.rs"), "xtask");
    }
}
