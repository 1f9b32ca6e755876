//! Rules for the text of single files.

use std::fs;
use std::path::Path;

use crate::run;

/// A source file longer than this is split by meaning. Test modules do not count.
const FILE_LINES: usize = 500;
/// Files that were longer when the rule came, with the length that they may not exceed: this list only shrinks.
const LONGER_FILES: &[(&str, usize)] = &[];
/// Module names that say nothing.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "misc", "manager2"];

/// Rules for every text file: nothing of one machine, no host of a package registry.
pub fn text_rules(file: &str, text: &str, found: &mut Vec<String>) {
    if file.ends_with("Cargo.lock") || file.ends_with("go.sum") || file == "xtask/src/tidy/sources.rs" {
        return;
    }
    for banned in
        ["/root/", "/work/", "proxy.golang.org", "registry.npmjs.org", "static.crates.io", "deb.debian.org"]
    {
        if text.contains(banned) {
            found.push(format!("{file}: names {banned}"));
        }
    }
}

pub fn source_rules(file: &str, text: &str, found: &mut Vec<String>) {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let is_test = file.contains("/tests/") || file.ends_with("/tests.rs") || file.ends_with("_tests.rs");
    let allowed = LONGER_FILES.iter().find(|(name, _)| *name == file).map_or(FILE_LINES, |(_, lines)| *lines);
    if code.lines().count() > allowed && !is_test {
        found.push(format!("{file}: {} lines, at most {allowed}", code.lines().count()));
    }
    for part in Path::new(file).components() {
        let name = part.as_os_str().to_string_lossy();
        if EMPTY_NAMES.contains(&name.trim_end_matches(".rs")) {
            found.push(format!("{file}: `{name}` says nothing about what is inside"));
        }
    }
    for (number, line) in text.lines().enumerate() {
        line_rules(file, number + 1, line, found);
    }
}

fn line_rules(file: &str, number: usize, line: &str, found: &mut Vec<String>) {
    if file.starts_with("xtask/") {
        return;
    }
    let mut refuse = |what: &str| found.push(format!("{file}:{number}: {what}"));
    if line.contains("#[ignore") {
        refuse("an ignored test");
    }
    // A benchmark paces what it sends.
    if line.contains("thread::sleep(") && !file.starts_with("tools/bench/") {
        refuse("sleeping instead of waiting for a condition");
    }
    let words = line.trim_start();
    if ["todo!(", "unimplemented!(", "TODO:", "FIXME", "XXX"].iter().any(|mark| words.contains(mark)) {
        refuse("unfinished");
    }
    let reads_environment =
        line.contains("env::var(") || line.contains("env::var_os(") || line.contains("env::vars(");
    let may_read = file.starts_with("crates/cli/")
        || file.starts_with("tools/")
        // These scenarios run on whichever server they are pointed at.
        || file == "crates/cluster/tests/it/runtime/mod.rs"
        || (file.starts_with("examples/") && file.ends_with("main.rs"));
    if reads_environment && !may_read && !words.starts_with("//") {
        refuse("only the command line reads the environment");
    }
    // Asking which status somebody else gave is no mapping.
    let asks = line.contains("== ") || line.contains("!= ") || line.contains(" =>");
    let maps_errors = ["NOT_FOUND", "CONFLICT", "FORBIDDEN", "UNPROCESSABLE_ENTITY", "GONE", "BAD_REQUEST"]
        .iter()
        .any(|name| !asks && line.contains(&format!("StatusCode::{name}")));
    let in_server = file.starts_with("crates/apiserver/src/") && file != "crates/apiserver/src/error.rs";
    if maps_errors && in_server {
        refuse("only error.rs maps errors to HTTP status");
    }
}

/// An example is read in one sitting and copied: fewer than this many lines of code, tests and comments aside.
const EXAMPLE_LINES: usize = 300;
/// The same for MarkdownView, which has every part that its tutorial has, the webhooks among them.
const MARKDOWNVIEW_LINES: usize = 400;

pub fn example_sizes(files: &[String], found: &mut Vec<String>) {
    for example in ["foo", "myresource", "markdownview", "hostrecord", "pump"] {
        let folder = format!("examples/{example}/src/");
        let sources = files.iter().filter(|file| file.starts_with(&folder));
        let texts = sources.filter_map(|file| fs::read_to_string(run::root().join(file)).ok());
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        // Unit tests stand at the end of a file.
        let product =
            |text: String| text.lines().take_while(|line| *line != "#[cfg(test)]").filter(is_code).count();
        let lines: usize = texts.map(product).sum();
        let most = if example == "markdownview" { MARKDOWNVIEW_LINES } else { EXAMPLE_LINES };
        if lines >= most {
            found.push(format!("examples/{example}: {lines} lines of code, fewer than {most} are promised"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_found() {
        let mut found = Vec::new();
        source_rules("crates/api/src/utils.rs", "fn main() { std::env::var(\"HOME\"); }", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        text_rules("README.md", "see /root/x", &mut found);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
