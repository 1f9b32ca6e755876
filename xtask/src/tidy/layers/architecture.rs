//! ARCHITECTURE.md tells the life of a write and of a reconcile. The modules that it names exist, and a list of modules
//! stands in the order of the layers.
//!
//! Such a list is a fenced block. Its first line names the crate; each further line begins with a module:
//!
//! ````text
//! ```modules crates/apiserver
//! serve         accepts connections
//! write/decode  reads the body
//! ```
//! ````
//!
//! With `upward` behind the crate, the list begins at the lowest module: data flows up there.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::tree::Tree;
use crate::run;

const FILE: &str = "ARCHITECTURE.md";
const SECTION: &str = "## The life of ";
const BLOCK: &str = "```modules ";
/// The list of the stages of a write, in the server and in this file.
const PIPELINE: &str = "crates/apiserver/src/write/pipeline.rs";
const SHORT_STAGE: &str = "write/pipeline/";

/// Checks the file of this repository.
pub fn check(found: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(run::root().join(FILE))?;
    let exists = |path: &str| run::root().join(path).exists();
    named_files(&text, &exists, found);
    let read = |path: &Path| fs::read_to_string(run::root().join(path)).ok();
    for block in blocks(&text) {
        let root = format!("{}/src/lib.rs", block.folder);
        block.check(&Tree::load(Path::new(&root), &read), found);
    }
    stages(&text, &fs::read_to_string(run::root().join(PIPELINE))?, found);
    Ok(())
}

/// The stages that a block lists after `write/pipeline` are those of the pipeline, in its order.
fn stages(text: &str, pipeline: &str, found: &mut Vec<String>) {
    let stages: Vec<&str> =
        pipeline.split("stage(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let told = blocks(text).into_iter().find_map(|block| {
        let first = block.modules.iter().position(|module| module.join("/") == "write/pipeline")?;
        Some(
            block.modules[first + 1..].iter().filter_map(|module| module.last().cloned()).collect::<Vec<_>>(),
        )
    });
    if told.as_deref().is_none_or(|told| told != stages) {
        found.push(format!("{FILE}: its list of stages is not that of {PIPELINE}: {}", stages.join(", ")));
    }
}

/// A path in a section on a life stands in the crate that the section is about, or is one from the root.
fn named_files(text: &str, exists: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
    for section in text.split(SECTION).skip(1) {
        let section = section.split("\n## ").next().unwrap_or(section);
        let words: Vec<&str> = section.split('`').skip(1).step_by(2).filter(|word| is_path(word)).collect();
        let Some(folder) = words.iter().find(|word| word.starts_with("crates/")) else {
            let title = section.lines().next().unwrap_or_default();
            found.push(format!("{FILE}: the life of {title} names no crate"));
            continue;
        };
        for word in &words {
            let path = word.replace("::", "/");
            let path = path.trim_end_matches('/');
            let (first, rest) = path.split_once('/').unwrap_or((path, ""));
            let places = [
                path.to_owned(),
                format!("{folder}/src/{path}"),
                format!("{folder}/src/{path}.rs"),
                format!("crates/{first}/src/{rest}"),
                format!("crates/{first}/src/{rest}.rs"),
            ];
            if !places.iter().any(|place| exists(place)) {
                found.push(format!("{FILE}: names `{word}`, which is no module of {folder}"));
            }
        }
    }
}

/// `admission/webhook`, `auth/`, `server.rs`, `store::watch`; not `Txn::put_with` and not `queue`.
fn is_path(word: &str) -> bool {
    let marked = word.contains('/') || word.contains("::") || word.ends_with(".rs");
    marked && word.chars().all(|letter| letter.is_ascii_lowercase() || "/:._0123456789".contains(letter))
}

struct Block<'a> {
    folder: &'a str,
    upward: bool,
    modules: Vec<Vec<String>>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let block = |part: &'_ str| -> Option<(usize, usize)> { part.find('\n').zip(part.find("\n```")) };
    let mut blocks = Vec::new();
    for part in text.split(BLOCK).skip(1) {
        let Some((first, last)) = block(part) else { continue };
        let mut words = part[..first].split_whitespace();
        let Some(folder) = words.next() else { continue };
        let module = |line: &str| {
            let name = line.split_whitespace().next()?;
            Some(name.split(['/', ':']).filter(|name| !name.is_empty()).map(str::to_owned).collect())
        };
        let modules = part[first..last].lines().filter_map(module).collect();
        blocks.push(Block { folder, upward: words.next() == Some("upward"), modules });
    }
    blocks
}

impl Block<'_> {
    fn check(&self, tree: &Tree, found: &mut Vec<String>) {
        let mut before: Option<(&[String], Vec<usize>)> = None;
        for module in &self.modules {
            let name = module.join("/");
            let Some(place) = tree.place(module) else {
                // A stage of a few lines is a function of the pipeline. `stages` compares it with the list there.
                if name.starts_with(SHORT_STAGE) {
                    continue;
                }
                found.push(format!("{FILE}: names the module `{name}`, which {} does not have", self.folder));
                continue;
            };
            if let Some((earlier, above)) = &before {
                let ordered = if self.upward { place < *above } else { *above < place };
                if !ordered && !place.starts_with(above) && !above.starts_with(&place) {
                    found.push(format!(
                        "{FILE}: names `{name}` after `{}`: the layers of {} have them the other way round",
                        earlier.join("/"),
                        self.folder
                    ));
                }
            }
            before = Some((module, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_module_must_exist() {
        let text = "## The life of one write\nIn `crates/a`: `b.rs`, `c/d`, `store::watch`, `Txn::put`, `x/y.rs`, `q`.\n\
                    ## Other\n`z/z.rs`";
        let files = ["crates/a", "crates/a/src/b.rs", "crates/a/src/c/d.rs", "crates/store/src/watch.rs"];
        let mut found = Vec::new();
        named_files(text, &|path| files.contains(&path), &mut found);
        assert_eq!(found, ["ARCHITECTURE.md: names `x/y.rs`, which is no module of crates/a"]);
    }

    #[test]
    fn the_stages_of_a_write_are_those_of_the_pipeline() {
        let text =
            "```modules crates/a\nwrite/pipeline  the list\nwrite/pipeline::read  x\nwrite/store  y\n```\n";
        let check = |pipeline: &str| {
            let mut found = Vec::new();
            stages(text, pipeline, &mut found);
            found
        };
        assert_eq!(check("stage(\"read\", read::run), stage(\"store\", store::run)"), Vec::<String>::new());
        let other = check("stage(\"store\", store::run), stage(\"read\", read::run)");
        assert_eq!(other.len(), 1, "{other:?}");
    }

    #[test]
    fn a_list_of_modules_stands_in_the_order_of_the_layers() {
        let read = |path: &Path| match path.to_str()? {
            "src/lib.rs" => Some("mod serve; mod write; mod store;".to_owned()),
            "src/write.rs" => Some("mod decode; mod commit;".to_owned()),
            "src/serve.rs" | "src/store.rs" | "src/write/decode.rs" | "src/write/commit.rs" => {
                Some(String::new())
            }
            _ => None,
        };
        let tree = Tree::load(Path::new("src/lib.rs"), &read);
        let check = |text: &str| {
            let mut found = Vec::new();
            for block in blocks(text) {
                block.check(&tree, &mut found);
            }
            found
        };
        let right = "```modules crates/a\nserve  accepts\nwrite/decode\nwrite/commit\nstore\n```\n";
        assert_eq!(check(right), [""; 0]);
        let flows_up = "```modules crates/a upward\nstore\nwrite::commit\nserve\n```\n";
        assert_eq!(check(flows_up), [""; 0]);
        let wrong = "```modules crates/a\nwrite/commit\nwrite/decode\ngone\n```\n";
        let expected = [
            "ARCHITECTURE.md: names `write/decode` after `write/commit`: the layers of crates/a have them the other \
             way round",
            "ARCHITECTURE.md: names the module `gone`, which crates/a does not have",
        ];
        assert_eq!(check(wrong), expected);
    }
}
