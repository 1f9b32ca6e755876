//! Rules for the Markdown pages.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use crate::run;

const ARCHITECTURE_LINES: usize = 300;
const STYLE_LINES: usize = 120;

/// Folders whose README lists each of their entries.
const INDEXES: &[&str] = &["docs/decisions", "docs/operators", "examples"];

/// Checks the lengths of the guides, every link and every index.
pub fn check(files: &[String], found: &mut Vec<String>) -> Result<()> {
    for (name, most) in [("ARCHITECTURE.md", ARCHITECTURE_LINES), ("STYLE.md", STYLE_LINES)] {
        let lines = fs::read_to_string(run::root().join(name))?.lines().count();
        if lines > most {
            found.push(format!("{name}: {lines} lines, at most {most}"));
        }
    }
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        let text = fs::read_to_string(run::root().join(file)).unwrap_or_default();
        let folder = run::root().join(file).parent().expect("a file has a folder").to_path_buf();
        for target in links(&text) {
            if !folder.join(&target).exists() {
                found.push(format!("{file}: links to {target}, which is not there"));
            }
        }
    }
    for folder in INDEXES {
        let index = fs::read_to_string(run::root().join(folder).join("README.md"))?;
        found.extend(unlisted(folder, files, &index));
    }
    Ok(())
}

/// The entries of a folder that its index does not link to.
fn unlisted(folder: &str, files: &[String], index: &str) -> Vec<String> {
    let entry = |file: &String| {
        let rest = file.strip_prefix(folder)?.strip_prefix('/')?;
        rest.split('/').next().filter(|name| *name != "README.md").map(str::to_owned)
    };
    let (entries, listed): (BTreeSet<String>, Vec<String>) =
        (files.iter().filter_map(entry).collect(), links(index));
    let missing = entries.into_iter().filter(|name| !listed.contains(name));
    missing.map(|name| format!("{folder}/README.md: does not list {name}")).collect()
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
    fn an_entry_that_the_index_does_not_list_is_found() {
        let files = ["docs/x/README.md", "docs/x/a.md", "docs/x/b/c.rs", "docs/xy/d.md"].map(str::to_owned);
        assert_eq!(unlisted("docs/x", &files, "[a](a.md)"), ["docs/x/README.md: does not list b"]);
        assert_eq!(unlisted("docs/x", &files, "[a](a.md) [b](b)"), [""; 0]);
    }

    #[test]
    fn links_are_relative_paths_without_anchors() {
        let text = "[a](docs/x.md#part) [b](https://host/) [c](#here)";
        assert_eq!(links(text), ["docs/x.md"]);
    }
}
