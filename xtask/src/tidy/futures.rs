//! Async functions of `setpoint`: each says what happens if its future is dropped.

/// The crate whose async functions belong to users.
const PLACE: &str = "crates/runtime/src/";

/// The words with which the sentence begins.
const SENTENCE: &str = "Dropping the future";

/// Finds the public async functions of a file that do not say it.
pub fn check(file: &str, text: &str, found: &mut Vec<String>) {
    if !file.starts_with(PLACE) {
        return;
    }
    let mut says = false;
    for (number, line) in text.lines().map(str::trim_start).enumerate() {
        if line.starts_with("///") {
            says |= line.contains(SENTENCE);
        } else if !line.starts_with("#[") {
            if line.starts_with("pub async fn") && !says {
                let number = number + 1;
                found.push(format!("{file}:{number}: say what happens in a doc line: \"{SENTENCE} …\""));
            }
            says = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_the_sentence_is_found() {
        let text = "/// Reads. Dropping the future ends the read.\n#[must_use]\npub async fn read() {}\n\n\
                    /// Writes.\n    pub async fn write() {}\n/// Own.\nasync fn own() {}\n";
        let mut found = Vec::new();
        check("crates/runtime/src/client/x.rs", text, &mut found);
        check("crates/cluster/src/x.rs", text, &mut found);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/runtime/src/client/x.rs:6:"), "{found:?}");
    }
}
