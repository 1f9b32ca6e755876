//! Rules of this repository that the compiler does not know. Runs as a test, so nobody forgets it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::run;

/// A source file longer than this is split by meaning. Test modules do not count.
const FILE_LINES: usize = 500;
/// Files that were longer when the rule came, with the length that they may not exceed: this list only shrinks.
const LONGER_FILES: &[(&str, usize)] = &[];
const ARCHITECTURE_LINES: usize = 300;
const STYLE_LINES: usize = 120;

/// Which of our crates each of our crates may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", &[]),
    ("setpoint-store", &[]),
    ("setpoint-apiserver", &["setpoint-api", "setpoint-store"]),
    ("setpoint", &["setpoint-api"]),
    ("setpoint-controllers", &["setpoint-api", "setpoint"]),
    ("setpoint-node", &["setpoint-api", "setpoint"]),
    (
        "setpoint-cluster",
        &[
            "setpoint-api",
            "setpoint-store",
            "setpoint-apiserver",
            "setpoint",
            "setpoint-controllers",
            "setpoint-node",
        ],
    ),
    ("foo-controller", &["setpoint"]),
    ("myresource-operator", &["setpoint"]),
    ("markdownview-operator", &["setpoint"]),
    ("xtask", &["setpoint-peers"]),
];

/// What a crate must never pull in directly.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", &["tokio", "http", "hyper", "kube", "k8s-openapi"]),
    ("setpoint-store", &["http", "hyper", "kube", "k8s-openapi", "serde_json"]),
    ("setpoint-apiserver", &["kube"]),
];

/// Module names that say nothing.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "misc", "manager2"];

/// Checks everything and lists every violation.
pub fn run() -> Result<()> {
    let mut found = Vec::new();
    dependencies(&mut found)?;
    let files = tracked_files()?;
    for file in &files {
        let Ok(text) = fs::read_to_string(run::root().join(file)) else { continue };
        text_rules(file, &text, &mut found);
        if file.ends_with(".rs") {
            source_rules(file, &text, &mut found);
        }
    }
    example_sizes(&files, &mut found);
    documents(&mut found)?;
    if found.is_empty() {
        return Ok(());
    }
    bail!("{} violations:\n{}", found.len(), found.join("\n"))
}

/// An example is read in one sitting and copied: fewer than this many lines of code, tests and comments aside.
const EXAMPLE_LINES: usize = 300;

fn example_sizes(files: &[String], found: &mut Vec<String>) {
    for example in ["foo", "myresource", "markdownview"] {
        let folder = format!("examples/{example}/src/");
        let sources = files.iter().filter(|file| file.starts_with(&folder));
        let texts = sources.filter_map(|file| fs::read_to_string(run::root().join(file)).ok());
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let lines: usize = texts.map(|text| text.lines().filter(is_code).count()).sum();
        if lines >= EXAMPLE_LINES {
            found.push(format!(
                "examples/{example}: {lines} lines of code, fewer than {EXAMPLE_LINES} are promised"
            ));
        }
    }
}

fn tracked_files() -> Result<Vec<String>> {
    let listed = run::read(Command::new("git").current_dir(run::root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

fn metadata() -> Result<Value> {
    let text = run::read(run::cargo().args(["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
    Ok(serde_json::from_str(&text)?)
}

/// Pairs of (package, what it depends on outside its tests).
fn direct_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .map(|package| {
            let uses = package["dependencies"].as_array().into_iter().flatten();
            let uses = uses.filter(|dependency| dependency["kind"].is_null());
            let names = uses.filter_map(|dependency| dependency["name"].as_str()).map(str::to_owned);
            (package["name"].as_str().unwrap_or_default().to_owned(), names.collect())
        })
        .collect()
}

fn dependencies(found: &mut Vec<String>) -> Result<()> {
    let all = direct_dependencies(&metadata()?);
    for (package, allowed) in MAY_USE {
        let Some(uses) = all.get(*package) else {
            found.push(format!("{package}: listed in tidy, absent from the workspace"));
            continue;
        };
        for ours in uses.iter().filter(|name| all.contains_key(*name)) {
            if !allowed.contains(&ours.as_str()) {
                found.push(format!("{package} must not depend on {ours}"));
            }
        }
    }
    for (package, banned) in MUST_NOT_USE {
        for name in all.get(*package).into_iter().flatten().filter(|name| banned.contains(&name.as_str())) {
            found.push(format!("{package} must not depend on {name}"));
        }
    }
    dependency_rows(&all, found)
}

/// Every direct dependency has its row in `docs/dependencies.md`.
fn dependency_rows(all: &BTreeMap<String, BTreeSet<String>>, found: &mut Vec<String>) -> Result<()> {
    let table = fs::read_to_string(run::root().join("docs/dependencies.md"))?;
    let external: BTreeSet<&String> =
        all.values().flatten().filter(|name| !all.contains_key(*name)).collect();
    for name in external {
        if !table.lines().any(|line| line.starts_with(&format!("| {name} |"))) {
            found.push(format!("docs/dependencies.md: no row for {name}"));
        }
    }
    Ok(())
}

/// Rules for every text file: nothing of one machine, no host of a package registry.
fn text_rules(file: &str, text: &str, found: &mut Vec<String>) {
    if file.ends_with("Cargo.lock") || file.ends_with("go.sum") || file == "xtask/src/tidy.rs" {
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

fn source_rules(file: &str, text: &str, found: &mut Vec<String>) {
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

fn documents(found: &mut Vec<String>) -> Result<()> {
    for (name, most) in [("ARCHITECTURE.md", ARCHITECTURE_LINES), ("STYLE.md", STYLE_LINES)] {
        let lines = fs::read_to_string(run::root().join(name))?.lines().count();
        if lines > most {
            found.push(format!("{name}: {lines} lines, at most {most}"));
        }
    }
    for file in tracked_files()?.iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(run::root().join(file)).unwrap_or_default();
        let folder = run::root().join(file).parent().expect("a file has a folder").to_path_buf();
        for target in links(&text) {
            if !folder.join(&target).exists() {
                found.push(format!("{file}: links to {target}, which is not there"));
            }
        }
    }
    Ok(())
}

/// Relative link targets of a Markdown text, without their anchors.
fn links(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for part in text.split("](").skip(1) {
        let Some(target) = part.split(')').next() else { continue };
        let path = target.split('#').next().unwrap_or_default();
        if !path.is_empty() && !path.contains("://") && !path.contains(char::is_whitespace) {
            targets.push(path.to_owned());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        if let Err(error) = run() {
            panic!("{error}");
        }
    }

    #[test]
    fn a_violation_is_found() {
        let mut found = Vec::new();
        source_rules("crates/api/src/utils.rs", "fn main() { std::env::var(\"HOME\"); }", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        text_rules("README.md", "see /root/x", &mut found);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn links_are_relative_paths_without_anchors() {
        let text = "[a](docs/x.md#part) [b](https://host/) [c](#here)";
        assert_eq!(links(text), ["docs/x.md"]);
    }
}
