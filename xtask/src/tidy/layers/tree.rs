//! The modules of one crate, and what a path in them leads to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::source::{self, Child, Source};

/// Re-exports of re-exports are followed this far.
const HOPS: usize = 16;

/// The names from the crate's root to a module.
pub type ModulePath = Vec<String>;

/// Every module of one crate, by its path from the root.
#[derive(Debug, Default)]
pub struct Tree {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Debug)]
struct Module {
    file: PathBuf,
    source: Source,
}

/// A module names something of one of its siblings, or an inner module of one names something of another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The module of which both are children.
    pub parent: ModulePath,
    pub from: String,
    pub to: String,
    pub file: PathBuf,
    pub line: usize,
}

impl Tree {
    /// Reads the crate whose root is this file. `read` returns a file's text.
    pub fn load(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut tree = Self::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
        if let Some(text) = read(root) {
            tree.add(Vec::new(), root.to_path_buf(), &folder, source::read(&text), read);
        }
        tree
    }

    /// `folder` is where the files of the module's children stand.
    fn add(
        &mut self,
        path: ModulePath,
        file: PathBuf,
        folder: &Path,
        mut source: Source,
        read: &dyn Fn(&Path) -> Option<String>,
    ) {
        for child in &mut source.children {
            let mut inner = path.clone();
            inner.push(child.name.clone());
            let folder = folder.join(&child.name);
            if let Some(body) = child.inline.take() {
                self.add(inner, file.clone(), &folder, body, read);
                continue;
            }
            for file in [folder.with_extension("rs"), folder.join("mod.rs")] {
                if let Some(text) = read(&file) {
                    self.add(inner.clone(), file, &folder, source::read(&text), read);
                    break;
                }
            }
        }
        self.modules.insert(path, Module { file, source });
    }

    /// Modules that have children, with their file and the children's names in their order.
    pub fn parents(&self) -> impl Iterator<Item = (&ModulePath, &Path, Vec<&str>)> {
        self.modules.iter().filter_map(|(path, module)| {
            let names: Vec<&str> = module.source.children.iter().map(|child| child.name.as_str()).collect();
            (!names.is_empty()).then_some((path, module.file.as_path(), names))
        })
    }

    /// The place of a module from the top, level by level; `None` if there is none of that path.
    pub fn place(&self, path: &[String]) -> Option<Vec<usize>> {
        (0..path.len())
            .map(|depth| {
                let parent = self.modules.get(&path[..depth])?;
                parent.source.children.iter().position(|child| child.name == path[depth])
            })
            .collect()
    }

    /// Everything between siblings: one edge for each file and sibling, with the first line of it.
    pub fn edges(&self) -> Vec<Edge> {
        let mut edges: BTreeMap<(ModulePath, PathBuf, String), Edge> = BTreeMap::new();
        for (path, module) in &self.modules {
            for named in &module.source.paths {
                for owner in self.owners(path, &named.path) {
                    let Some(edge) = edge(path, &owner, &module.file, named.line) else { continue };
                    let key = (edge.parent.clone(), edge.file.clone(), edge.to.clone());
                    let first = edges.entry(key).or_insert_with(|| edge.clone());
                    first.line = first.line.min(edge.line);
                }
            }
        }
        edges.into_values().collect()
    }

    /// The modules that a path leads through: the one that it names, and those that re-exports lead on to.
    fn owners(&self, from: &ModulePath, path: &[String]) -> Vec<ModulePath> {
        let mut owners = Vec::new();
        if let Some(absolute) = self.absolute(from, path) {
            self.follow(&absolute, HOPS, &mut owners);
        }
        owners
    }

    /// From the root of the crate; `None` leads out of it.
    fn absolute(&self, from: &ModulePath, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            _ if self.child(from, first) => [from.clone(), vec![first.clone()]].concat(),
            _ => return None,
        };
        for name in rest {
            if name == "super" {
                base.pop()?;
            } else {
                base.push(name.clone());
            }
        }
        Some(base)
    }

    fn child(&self, module: &ModulePath, name: &str) -> bool {
        let has = |child: &Child| child.name == name;
        self.modules.get(module).is_some_and(|module| module.source.children.iter().any(has))
    }

    fn follow(&self, absolute: &[String], hops: usize, owners: &mut Vec<ModulePath>) {
        let depth = (0..=absolute.len()).rev().find(|depth| self.modules.contains_key(&absolute[..*depth]));
        let Some(depth) = depth else { return };
        let module = absolute[..depth].to_vec();
        owners.push(module.clone());
        let (Some(name), Some(hops)) = (absolute.get(depth), hops.checked_sub(1)) else { return };
        let Some(source) = self.modules.get(&module).map(|module| &module.source) else { return };
        if source.items.iter().any(|item| item.name == *name) {
            return;
        }
        if let Some(import) = source.imports.iter().find(|import| import.name == *name) {
            if let Some(mut target) = self.absolute(&module, &import.path) {
                target.extend_from_slice(&absolute[depth + 1..]);
                self.follow(&target, hops, owners);
            }
            return;
        }
        for import in source.imports.iter().filter(|import| import.name == "*") {
            let Some(mut target) = self.absolute(&module, &import.path) else { continue };
            let defines = |module: &Module| {
                module.source.items.iter().any(|item| item.name == *name)
                    || module.source.imports.iter().any(|import| import.name == *name)
            };
            if self.modules.get(&target).is_some_and(defines) {
                target.extend_from_slice(&absolute[depth..]);
                return self.follow(&target, hops, owners);
            }
        }
    }
}

/// Between the branches that two modules stand in; a module and its own inner modules are no siblings.
fn edge(from: &ModulePath, to: &ModulePath, file: &Path, line: usize) -> Option<Edge> {
    let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
    let parent = from[..shared].to_vec();
    let (from, to) = (from.get(shared)?.clone(), to.get(shared)?.clone());
    Some(Edge { parent, from, to, file: file.to_path_buf(), line })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `parent: from → to @ file:line` of every edge.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        };
        let tree = Tree::load(Path::new("src/lib.rs"), &read);
        let shown = |edge: Edge| {
            let parent = edge.parent.join("::");
            format!("{parent}: {} → {} @ {}:{}", edge.from, edge.to, edge.file.display(), edge.line)
        };
        tree.edges().into_iter().map(shown).collect()
    }

    #[test]
    fn a_path_leads_to_the_sibling_that_it_names() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;"),
            ("src/a.rs", "use crate::b::X;\nfn f() { super::b::g() }"),
            ("src/b/mod.rs", "mod c;\nmod d;"),
            ("src/b/c.rs", "\nuse super::d::Y;\nuse crate::a::Z;"),
            ("src/b/d.rs", "use super::super::a::Z;"),
        ];
        let expected = [
            ": a → b @ src/a.rs:1",
            ": b → a @ src/b/c.rs:3",
            ": b → a @ src/b/d.rs:1",
            "b: c → d @ src/b/c.rs:2",
        ];
        assert_eq!(edges(&files), expected);
    }

    #[test]
    fn a_re_export_leads_to_its_owner() {
        let files = [
            (
                "src/lib.rs",
                "mod a;\nmod b;\nmod c;\nmod d;\npub use b::{X, inner as i};\npub use d::*;\nstruct Own;",
            ),
            ("src/a.rs", "use crate::X;\nuse super::Own;\nuse crate::i::Q;\nuse crate::D;\nuse std::fmt;"),
            ("src/b.rs", "mod inner { }\npub use crate::c::X;"),
            ("src/c.rs", "pub struct X;"),
            ("src/d.rs", "pub struct D;"),
        ];
        let expected =
            [": a → b @ src/a.rs:1", ": a → c @ src/a.rs:1", ": a → d @ src/a.rs:4", ": b → c @ src/b.rs:2"];
        assert_eq!(edges(&files), expected);
    }
}
