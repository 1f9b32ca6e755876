//! The embedded table of built-in kinds.

use std::sync::OnceLock;

use super::Schema;

/// The built-in kinds: what is served, and the type of each.
pub struct Table {
    any: Schema,
}

/// The embedded table.
pub fn builtin() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table { any: Schema::any() })
}

/// One served resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The API group; empty for core.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// Its singular name.
    pub singular: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What may be done with it, sorted.
    pub verbs: Vec<&'static str>,
    /// Abbreviations that kubectl knows.
    pub short_names: Vec<&'static str>,
    /// Sets of resources it belongs to (`all`).
    pub categories: Vec<&'static str>,
    /// The hash of its storage version, where discovery shows one.
    pub storage_version_hash: Option<&'static str>,
    /// Its subresources, sorted by name.
    pub subresources: Vec<Subresource>,
}

/// A path below an object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// The last path segment (`status`).
    pub name: &'static str,
    /// The group and version of its objects where discovery states them: they differ from the resource's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// The kind of its objects.
    pub kind: &'static str,
    /// What may be done with it, sorted.
    pub verbs: Vec<&'static str>,
}

/// One served API group with its versions, the preferred one first.
#[derive(Clone, Debug)]
pub struct Group {
    /// The name; empty for core.
    pub name: &'static str,
    /// The versions in discovery's order.
    pub versions: Vec<&'static str>,
}

impl Table {
    /// The groups in discovery's order, core first.
    pub fn groups(&self) -> &[Group] {
        &[]
    }

    /// All resources, by group and version in discovery's order, then by name.
    pub fn resources(&self) -> &[Resource] {
        &[]
    }

    /// One resource.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.resources().iter().find(|r| r.group == group && r.version == version && r.plural == plural)
    }

    /// The type of a kind: served kinds, their lists, and the meta kinds (`Status`, `DeleteOptions`, `Scale`, …).
    pub fn schema(&self, _group: &str, _version: &str, _kind: &str) -> Option<Schema> {
        None
    }

    pub(super) fn type_at(&self, _id: u16) -> &Schema {
        &self.any
    }
}
