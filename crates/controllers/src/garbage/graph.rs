//! The graph of owners, kept up to date with every object that appears, changes or vanishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{FOREGROUND, ORPHAN};

/// An object's uid.
pub type Uid = Arc<str>;

/// The location of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub uid: Uid,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: Uid,
    /// Whether the owner, when deleted in the foreground, waits for this dependent.
    pub blocks: bool,
}

/// The collector's knowledge of an object.
#[derive(Debug, Clone)]
pub struct Object {
    pub identity: Identity,
    pub resource_version: String,
    pub owners: Vec<Owner>,
    pub deleting: bool,
    pub finalizers: Vec<String>,
}

impl Object {
    /// On its way out, and waiting for its dependents to go first.
    pub fn deletes_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }

    /// On its way out, and waiting for its dependents to be released.
    pub fn orphans_dependents(&self) -> bool {
        self.deleting && self.has_finalizer(ORPHAN)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|present| present == finalizer)
    }
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Should this object go, or may it?
    Delete(Uid),
    /// Release this object's dependents.
    Orphan(Uid),
}

/// All objects, and the dependents of every owner, known or unknown.
#[derive(Debug, Default)]
pub struct Graph {
    objects: BTreeMap<Uid, Object>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    pub fn get(&self, uid: &str) -> Option<&Object> {
        self.objects.get(uid)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The objects that name this owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Object> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|dependent| self.objects.get(dependent))
    }

    /// The dependents that an owner deleted in the foreground waits for.
    pub fn blocking(&self, uid: &str) -> impl Iterator<Item = &Object> {
        let blocks = move |owner: &Owner| &*owner.uid == uid && owner.blocks;
        self.dependents(uid).filter(move |dependent| dependent.owners.iter().any(blocks))
    }

    /// Records the present state of an object. Returns the work that follows.
    pub fn observe(&mut self, object: Object) -> Vec<Work> {
        let uid = object.identity.uid.clone();
        let mut work = Vec::new();
        let before = self.objects.get(&uid);
        let was = |test: fn(&Object) -> bool| before.is_some_and(test);
        if object.orphans_dependents() && !was(Object::orphans_dependents) {
            work.push(Work::Orphan(uid.clone()));
        } else if object.deletes_dependents() && !was(Object::deletes_dependents) {
            work.extend(self.dependents.get(&uid).into_iter().flatten().cloned().map(Work::Delete));
            work.push(Work::Delete(uid.clone()));
        }
        let former = before.map(|object| object.owners.clone()).unwrap_or_default();
        if former != object.owners {
            self.reconnect(&object, &former, &mut work);
        }
        self.objects.insert(uid, object);
        work
    }

    fn reconnect(&mut self, object: &Object, former: &[Owner], work: &mut Vec<Work>) {
        let (uid, owners) = (&object.identity.uid, &object.owners);
        for owner in former.iter().filter(|owner| !owners.iter().any(|kept| kept.uid == owner.uid)) {
            self.disconnect(uid, &owner.uid);
        }
        // An owner that waits for this object may go on, once it is no longer named or no longer blocked.
        let blocked = |owner: &Owner| owners.iter().any(|other| other.uid == owner.uid && other.blocks);
        let unblocked = former.iter().filter(|owner| owner.blocks && !blocked(owner));
        work.extend(unblocked.map(|owner| Work::Delete(owner.uid.clone())));
        let mut suspect = false;
        for owner in owners.iter().filter(|owner| !former.contains(owner)) {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
            suspect |= self.owner_as_named(&object.identity, owner).is_none_or(Object::deletes_dependents);
        }
        if suspect {
            work.push(Work::Delete(uid.clone()));
        }
    }

    /// The owner, if it is known and exactly where the reference says.
    pub fn owner_as_named(&self, dependent: &Identity, owner: &Owner) -> Option<&Object> {
        let found = self.objects.get(&owner.uid)?;
        let identity = &found.identity;
        // Another version of the same group is the same kind.
        let same_kind =
            group(&identity.api_version) == group(&owner.api_version) && *identity.kind == *owner.kind;
        let same_place = identity.namespace.is_none() || identity.namespace == dependent.namespace;
        (same_kind && same_place && *identity.name == *owner.name).then_some(found)
    }

    fn disconnect(&mut self, dependent: &str, owner: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    /// Removes an object. Returns its dependents, and the owners that waited for it, as work.
    pub fn vanish(&mut self, uid: &str) -> Vec<Work> {
        let Some(object) = self.objects.remove(uid) else { return Vec::new() };
        let mut work: Vec<Work> =
            self.dependents.get(uid).into_iter().flatten().cloned().map(Work::Delete).collect();
        for owner in &object.owners {
            self.disconnect(uid, &owner.uid);
            if self.objects.get(&owner.uid).is_some_and(Object::deletes_dependents) {
                work.push(Work::Delete(owner.uid.clone()));
            }
        }
        work
    }

    /// Every object of a kind, for when the kind itself goes.
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Vec<Uid> {
        let of_kind =
            |object: &&Object| &*object.identity.api_version == api_version && &*object.identity.kind == kind;
        self.objects.values().filter(of_kind).map(|object| object.identity.uid.clone()).collect()
    }
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
