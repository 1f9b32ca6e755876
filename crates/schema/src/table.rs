//! The embedded table of built-in kinds: what is served, and the type of each kind. Nothing of it is decoded
//! before it is asked for. `cargo xtask schema` writes the file; its `blob.rs` describes the layout.

use std::sync::{Arc, OnceLock};

use super::form::{Schema, TypeRef};
use super::record::{self, Record, Texts};

/// The built-in kinds: what is served, and the type of each.
pub struct Table {
    blob: &'static [u8],
    header: [u32; 7],
    types: Box<[OnceLock<Schema>]>,
    strings: Box<[OnceLock<Arc<str>>]>,
    served: OnceLock<Served>,
}

struct Served {
    groups: Vec<Group>,
    resources: Vec<Resource>,
}

/// The embedded table.
pub fn builtin() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::new(include_bytes!("builtin.bin")))
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
    /// The verbs that it supports, sorted.
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
    /// The verbs that it supports, sorted.
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

/// The header's numbers, in the file's order.
const STRINGS: usize = 0;
const STRING_INDEX: usize = 1;
const TYPES: usize = 2;
const TYPE_INDEX: usize = 3;
const KINDS: usize = 4;
const KIND_ROWS: usize = 5;
const RESOURCES: usize = 6;

/// Kinds that every group-version has, registered once.
const EVERYWHERE: &[&str] = &[
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

impl Table {
    fn new(blob: &'static [u8]) -> Self {
        assert_eq!(&blob[..4], b"SPT1", "the embedded table has the layout that this code reads");
        let mut header = [0; 7];
        for (at, value) in header.iter_mut().enumerate() {
            *value = word(blob, 4 + at * 4);
        }
        Table {
            blob,
            types: (0..header[TYPES]).map(|_| OnceLock::new()).collect(),
            strings: (0..header[STRINGS]).map(|_| OnceLock::new()).collect(),
            header,
            served: OnceLock::new(),
        }
    }

    /// The groups in discovery's order, core first.
    pub fn groups(&self) -> &[Group] {
        &self.served().groups
    }

    /// All resources, by group and version in discovery's order, then by name.
    pub fn resources(&self) -> &[Resource] {
        &self.served().resources
    }

    /// One resource.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Resource> {
        self.resources().iter().find(|r| r.plural == plural && r.group == group && r.version == version)
    }

    /// The type of a kind: served kinds, their lists, and the meta kinds (`Status`, `DeleteOptions`, `Scale`, …).
    pub fn schema(&self, group: &str, version: &str, kind: &str) -> Option<Schema> {
        self.kind(group, version, kind).cloned()
    }

    /// As [`Table::schema`], borrowed.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Schema> {
        let found = self
            .type_of_kind(group, version, kind)
            .or_else(|| EVERYWHERE.contains(&kind).then(|| self.type_of_kind("", "v1", kind)).flatten());
        found.map(|id| self.type_at(id))
    }

    /// Every kind of the table as (group, version, kind), sorted.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> + '_ {
        (0..self.header[KINDS] as usize).map(|row| {
            let [group, version, kind, _] = self.kind_numbers(row).map(u32::from);
            (self.text(group), self.text(version), self.text(kind))
        })
    }

    /// How many types the table has: [`Table::type_at`] takes the numbers below.
    pub fn type_count(&self) -> u16 {
        u16::try_from(self.types.len()).expect("type numbers are u16")
    }

    /// The type of that number, decoded on first use.
    ///
    /// # Panics
    /// When the table has no such type.
    pub fn type_at(&self, id: u16) -> &Schema {
        self.types[usize::from(id)].get_or_init(|| {
            let at = self.header[TYPE_INDEX] as usize + usize::from(id) * 4;
            let mut bytes = Record::new(&self.blob[word(self.blob, at) as usize..]);
            Schema::of(record::node(self, &mut bytes))
        })
    }

    /// The table as it is embedded: what is the same in two programs has the same bytes.
    pub fn bytes(&self) -> &'static [u8] {
        self.blob
    }

    fn type_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<u16> {
        let (mut low, mut high) = (0, self.header[KINDS] as usize);
        while low < high {
            let middle = low.midpoint(high);
            let row = self.kind_numbers(middle);
            let order = |at: usize, wanted: &str| self.text_bytes(row[at].into()).cmp(wanted.as_bytes());
            match order(0, group).then_with(|| order(1, version)).then_with(|| order(2, kind)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(row[3]),
            }
        }
        None
    }

    /// The texts of a row's group, version and kind, and its type, by number.
    fn kind_numbers(&self, row: usize) -> [u16; 4] {
        let at = self.header[KIND_ROWS] as usize + row * 8;
        let row: &[u8; 8] = self.blob[at..].first_chunk().expect("the embedded table is whole");
        [0, 2, 4, 6].map(|at| u16::from_le_bytes([row[at], row[at + 1]]))
    }

    fn text_bytes(&self, number: u32) -> &'static [u8] {
        let at = self.header[STRING_INDEX] as usize + number as usize * 4;
        &self.blob[word(self.blob, at) as usize..word(self.blob, at + 4) as usize]
    }

    fn served(&self) -> &Served {
        self.served.get_or_init(|| {
            let mut record = Record::new(&self.blob[self.header[RESOURCES] as usize..]);
            self.read_served(&mut record)
        })
    }

    fn read_served(&self, record: &mut Record<'_>) -> Served {
        let mut served = Served { groups: Vec::new(), resources: Vec::new() };
        for _ in 0..record.number() {
            let mut group = Group { name: self.text(record.number()), versions: Vec::new() };
            for _ in 0..record.number() {
                let version = self.text(record.number());
                group.versions.push(version);
                for _ in 0..record.number() {
                    served.resources.push(self.read_resource(group.name, version, record));
                }
            }
            served.groups.push(group);
        }
        served
    }

    fn read_resource(&self, group: &'static str, version: &'static str, record: &mut Record<'_>) -> Resource {
        let plural = self.text(record.number());
        let singular = self.text(record.number());
        let kind = self.text(record.number());
        let namespaced = record.number() == 1;
        let verbs = self.texts(record);
        let short_names = self.texts(record);
        let categories = self.texts(record);
        let storage_version_hash = record.optional().map(|hash| self.text(hash));
        let mut subresources = Vec::new();
        for _ in 0..record.number() {
            let name = self.text(record.number());
            let kind = self.text(record.number());
            let version = record.optional().map(|at| self.text(at));
            let group = record.optional().map(|at| self.text(at));
            let group_version = version.map(|version| (group.unwrap_or(""), version));
            subresources.push(Subresource { name, group_version, kind, verbs: self.texts(record) });
        }
        Resource {
            group,
            version,
            kind,
            plural,
            singular,
            namespaced,
            verbs,
            short_names,
            categories,
            storage_version_hash,
            subresources,
        }
    }

    fn texts(&self, record: &mut Record<'_>) -> Vec<&'static str> {
        (0..record.number()).map(|_| self.text(record.number())).collect()
    }
}

impl Texts for Table {
    fn text(&self, number: u32) -> &'static str {
        std::str::from_utf8(self.text_bytes(number)).expect("the embedded table's texts are UTF-8")
    }

    fn shared(&self, number: u32) -> Arc<str> {
        self.strings[number as usize].get_or_init(|| self.text(number).into()).clone()
    }
}

impl TypeRef {
    /// The type referred to.
    pub fn resolve(&self) -> Schema {
        self.get().clone()
    }

    /// The type referred to, borrowed: no reference count moves.
    pub fn get(&self) -> &Schema {
        match self {
            TypeRef::Builtin(id) => builtin().type_at(*id),
            TypeRef::Inline(schema) => schema,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
