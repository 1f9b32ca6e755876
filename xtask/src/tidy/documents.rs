//! Rules for the Markdown pages.

use std::fs;

use anyhow::Result;

use crate::run;

const ARCHITECTURE_LINES: usize = 300;
const STYLE_LINES: usize = 120;

/// Checks the lengths of the guides and every link.
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
    fn links_are_relative_paths_without_anchors() {
        let text = "[a](docs/x.md#part) [b](https://host/) [c](#here)";
        assert_eq!(links(text), ["docs/x.md"]);
    }
}
