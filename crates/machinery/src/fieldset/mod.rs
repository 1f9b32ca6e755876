//! Sets of field paths, as managedFields keeps them: a trie of path elements with the `FieldsV1` JSON form.

mod algebra;
mod json;
mod element;
#[cfg(test)]
mod tests;

pub use element::{PathElement, compare_values, values_equal};
pub use json::FieldsError;

use std::fmt;

/// A set of paths into an object.
///
/// Owning a path says nothing about its parents or children: `.spec` and `.spec.replicas` are two members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; an entry that is no member has children.
    pub(crate) entries: Vec<Entry>,
}

/// One path element with what hangs below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl FieldSet {
    /// The empty set.
    pub const fn new() -> Self {
        FieldSet { entries: Vec::new() }
    }

    /// A set of paths of plain field names.
    pub fn of_fields<'a>(paths: impl IntoIterator<Item = &'a [&'a str]>) -> Self {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether no path is a member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of member paths.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    fn position(&self, element: &PathElement) -> Result<usize, usize> {
        // Walks visit elements in order, so that most insertions go to the end.
        match self.entries.last() {
            Some(last) if last.element < *element => Err(self.entries.len()),
            None => Err(0),
            _ => self.entries.binary_search_by(|entry| entry.element.cmp(element)),
        }
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&Entry> {
        self.position(element).ok().map(|at| &self.entries[at])
    }

    /// Finds the entry of a field name without building an element.
    pub(crate) fn get_field(&self, name: &str) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.element.cmp_field(name));
        found.ok().map(|at| &self.entries[at])
    }

    /// Makes `element` a member.
    pub(crate) fn insert_element(&mut self, element: PathElement) {
        match self.position(&element) {
            Ok(at) => self.entries[at].member = true,
            Err(at) => self.entries.insert(at, Entry { element, member: true, children: FieldSet::new() }),
        }
    }

    /// Puts a subtree in place; the element must not be present yet. An empty one leaves no trace.
    pub(crate) fn attach(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if !member && children.is_empty() {
            return;
        }
        match self.position(&element) {
            Ok(at) => {
                let entry = &mut self.entries[at];
                entry.member |= member;
                entry.children = entry.children.union(&children);
            }
            Err(at) => self.entries.insert(at, Entry { element, member, children }),
        }
    }

    /// Makes `path` a member. The empty path is never one.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        if rest.is_empty() {
            return self.insert_element(first.clone());
        }
        let at = match self.position(first) {
            Ok(at) => at,
            Err(at) => {
                let entry = Entry { element: first.clone(), member: false, children: FieldSet::new() };
                self.entries.insert(at, entry);
                at
            }
        };
        self.entries[at].children.insert(rest);
    }

    /// Whether `path` is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        match self.get(first) {
            Some(entry) if rest.is_empty() => entry.member,
            Some(entry) => entry.children.has(rest),
            None => false,
        }
    }

    /// Every member path: at each level first the members themselves, then what lies below.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        for entry in self.entries.iter().filter(|entry| entry.member) {
            let mut path = prefix.clone();
            path.push(entry.element.clone());
            paths.push(path);
        }
        for entry in self.entries.iter().filter(|entry| !entry.children.is_empty()) {
            prefix.push(entry.element.clone());
            entry.children.collect(prefix, paths);
            prefix.pop();
        }
    }
}

/// A path as Kubernetes prints it: `.spec.containers[name="app"].image`.
pub fn display_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.paths().iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&display_path(path))?;
        }
        Ok(())
    }
}
