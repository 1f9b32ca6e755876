//! The served resources: built-in ones from the schema table, custom ones from their definitions.

mod kinds;
pub(crate) mod discovered;
pub(crate) mod definition;
mod custom;
mod conversion;
mod scale;
mod version;
pub mod fields;
mod refusals;
mod rules;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use setpoint_api::kind::{GroupKind, GroupResource, GroupVersionKind};
use setpoint_kinds::facts::Facts;
use setpoint_schema::{Schema, builtin};
use setpoint_store::Snapshot;

pub use crate::entry::{Meta, meta, value};
pub(crate) use crate::entry::{decoded, keep_view, kept_view, protobuf};
use crate::key;
pub use custom::Custom;
pub(crate) use custom::{Candidate, DecodeError};
pub use rules::Rules;
pub(crate) use version::version_order;

/// One served resource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group; empty is core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of the list.
    pub list_kind: String,
    /// Name in paths.
    pub plural: String,
    /// Name for one.
    pub singular: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that the resource supports.
    pub verbs: Vec<String>,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// Sets it belongs to.
    pub categories: Vec<String>,
    /// Discovery's hash of the storage version.
    pub storage_version_hash: String,
    /// Paths below an object.
    pub subresources: Vec<Subresource>,
    /// `apiVersion` in which a write is decided: the stored one, or that of the request if a webhook converts the kind.
    pub storage_api_version: String,
    /// Key prefix of the objects.
    pub prefix: Vec<u8>,
    /// How the server treats the kind.
    pub rules: Rules,
    /// The facts about the kind that writes depend on.
    pub facts: Facts,
    /// The definition behind a custom resource.
    pub custom: Option<Arc<Custom>>,
}

/// A path below an object.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Last path segment.
    pub name: String,
    /// Group and version of its objects, if they differ from the resource's.
    pub group_version: Option<(String, String)>,
    /// Kind of its objects.
    pub kind: String,
    /// The verbs that the subresource supports.
    pub verbs: Vec<String>,
}

impl Resource {
    /// `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Group and plural.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.plural)
    }

    /// Group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(&*self.group, &*self.kind)
    }

    /// Group, kind and the version of the stored form.
    pub fn stored_kind(&self) -> GroupVersionKind {
        let (group, version) =
            self.storage_api_version.split_once('/').unwrap_or(("", &self.storage_api_version));
        GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind: self.kind.clone() }
    }

    /// Whether this is the built-in resource of that group and name. A definition may have the same name.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural && self.custom.is_none()
    }

    /// Whether the resource has that verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|own| own.name == name)
    }

    /// The key of an object.
    pub fn key(&self, namespace: &str, name: &str) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key::extend(&mut key, if self.namespaced { namespace } else { "" }, name);
        key
    }

    /// The prefix of the objects of a namespace, or of all with an empty one.
    pub fn range(&self, namespace: &str) -> Vec<u8> {
        let mut prefix = self.prefix.clone();
        if self.namespaced && !namespace.is_empty() {
            prefix.extend_from_slice(namespace.as_bytes());
            prefix.push(b'/');
        }
        prefix
    }

    /// Whether a write of this version is decided in the version that is stored. If a webhook converts the kind, every
    /// version counts as such: objects are converted on their way to the store.
    pub fn is_stored_form(&self) -> bool {
        match self.storage_api_version.split_once('/') {
            Some((group, version)) => group == self.group && version == self.version,
            None => self.group.is_empty() && self.storage_api_version == self.version,
        }
    }

    /// Whether this version shows stored objects unchanged. A version of a custom kind may lack fields, or fill in
    /// others.
    pub(crate) fn has_all_that_is_stored(&self) -> bool {
        self.custom.as_ref().is_none_or(|custom| custom.is_as_stored(&self.version))
    }

    /// The type of the stored objects.
    pub fn stored_schema(&self) -> Schema {
        let stored = self.stored_kind();
        match &self.custom {
            Some(custom) => custom.schema(&stored.version),
            None => {
                builtin().schema(&stored.group, &stored.version, &stored.kind).unwrap_or_else(Schema::any)
            }
        }
    }

    /// The type of the objects.
    pub fn schema(&self) -> Schema {
        match &self.custom {
            Some(custom) => custom.schema(&self.version),
            None => builtin().schema(&self.group, &self.version, &self.kind).unwrap_or_else(Schema::any),
        }
    }
}

type Name = (String, String, String);

/// The custom resources at one moment.
#[derive(Default)]
pub struct CustomTable {
    /// By group, version and plural.
    pub resources: BTreeMap<Name, Arc<Resource>>,
    /// The revision of the store from which the table was read.
    pub revision: u64,
}

impl CustomTable {
    /// All served resources: the built-in ones, then these.
    pub fn with_builtins(&self) -> Vec<Arc<Resource>> {
        kinds::builtins().values().chain(self.resources.values()).cloned().collect()
    }
}

/// The resources that one server serves.
#[derive(Default)]
pub struct Registry {
    custom: RwLock<Arc<CustomTable>>,
}

impl Registry {
    /// The resource that a path names.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let name = (group.to_owned(), version.to_owned(), plural.to_owned());
        match kinds::builtins().get(&name) {
            Some(resource) => Some(resource.clone()),
            None => self.custom().resources.get(&name).cloned(),
        }
    }

    /// Whether built-in resources are served in that group.
    pub fn is_builtin_group(&self, group: &str) -> bool {
        let first = (group.to_owned(), String::new(), String::new());
        kinds::builtins().range(first..).next().is_some_and(|(name, _)| name.0 == group)
    }

    /// The current custom resources.
    pub fn custom(&self) -> Arc<CustomTable> {
        self.custom.read().expect("no holder of this lock panics").clone()
    }

    /// Reads the definitions again. Call after a write to one of them, with a newer snapshot.
    pub fn reload(&self, snapshot: &Snapshot) {
        let mut current = self.custom.write().expect("no holder of this lock panics");
        if snapshot.revision() >= current.revision {
            let resources = definition::served(snapshot);
            *current = Arc::new(CustomTable { resources, revision: snapshot.revision() });
        }
    }

    /// All served resources, built-in first.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        self.custom().with_builtins()
    }

    /// The resource that serves a kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.all().into_iter().find(|r| r.group == group && r.version == version && r.kind == kind)
    }
}
