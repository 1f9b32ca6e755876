//! The `mod` lines of a file stand in reading order, and a module imports only siblings that stand below it. Imports,
//! paths in bodies and re-exports count, at every level of every crate; modules of tests do not.

pub mod architecture;
mod order;
mod tree;
mod source;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use self::order::Weights;
use self::tree::{Edge, ModulePath, Tree};
use super::ratchets::Ratchets;
use crate::run;

pub const RULE: &str = "upward-imports";

/// One list of siblings and the imports between them.
struct Level {
    /// The file whose `mod` lines they are.
    file: PathBuf,
    names: Vec<String>,
    edges: Vec<Edge>,
}

impl Level {
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn weights(&self) -> Weights<'_> {
        let mut weights = Weights::new();
        for edge in &self.edges {
            *weights.entry((edge.from.as_str(), edge.to.as_str())).or_default() += 1;
        }
        weights
    }

    fn upward(&self) -> impl Iterator<Item = &Edge> {
        let place = |name: &str| self.names.iter().position(|other| other == name);
        self.edges.iter().filter(move |edge| place(&edge.to) < place(&edge.from))
    }
}

/// Counts every upward import.
pub fn count(files: &[String], ratchets: &mut Ratchets) {
    for level in levels(files) {
        let place = level.file.to_string_lossy();
        for edge in level.upward() {
            let Edge { from, to, file, line, .. } = edge;
            let found = format!(
                "{}:{line}: `{from}` imports `{to}`, which stands above it in {place}",
                file.display()
            );
            ratchets.count(RULE, &place, found);
        }
    }
}

/// The names that other crates find at the top of this file.
pub fn public_names(text: &str) -> Vec<String> {
    let source = source::read(text);
    let children = source.children.into_iter().filter(|child| child.public).map(|child| child.name);
    let imports = source.imports.into_iter().filter(|import| import.public).map(|import| import.name);
    let items = source.items.into_iter().filter(|item| item.public).map(|item| item.name);
    children.chain(imports).chain(items).collect()
}

/// Prints what each list of siblings has left, and an order that has less.
pub fn print(files: &[String]) {
    let (mut upward, mut in_cycles) = (0, 0);
    for level in levels(files) {
        let (names, weights) = (level.names(), level.weights());
        let (now, cyclic) = (order::upward(&names, &weights), order::in_cycles(&names, &weights));
        upward += now;
        in_cycles += cyclic;
        let better = order::suggest(&names, &weights);
        let best = order::upward(&better, &weights);
        if now > 0 {
            println!("{}: {now} upward imports, {cyclic} modules in cycles", level.file.display());
            if best < now {
                println!("  {best} in the order: {}", better.join(", "));
            }
        }
    }
    println!("{upward} upward imports, {in_cycles} modules in cycles");
}

fn levels(files: &[String]) -> Vec<Level> {
    let read = |path: &Path| fs::read_to_string(run::root().join(path)).ok();
    let is_root = |file: &&String| file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    let mut levels = Vec::new();
    for root in files.iter().filter(is_root).filter(|file| !file.starts_with("peers/")) {
        levels.extend(of_crate(&Tree::load(Path::new(root), &read)));
    }
    levels
}

fn of_crate(tree: &Tree) -> Vec<Level> {
    let mut edges: BTreeMap<ModulePath, Vec<Edge>> = BTreeMap::new();
    for edge in tree.edges() {
        edges.entry(edge.parent.clone()).or_default().push(edge);
    }
    let level = |(path, file, names): (&ModulePath, &Path, Vec<&str>)| Level {
        file: file.to_path_buf(),
        names: names.into_iter().map(str::to_owned).collect(),
        edges: edges.remove(path).unwrap_or_default(),
    };
    tree.parents().map(level).collect()
}
