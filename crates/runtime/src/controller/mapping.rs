//! Mappings from a changed object to the keys that it queues.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::client::OwnKind;
use crate::informer::Object;
use crate::key::Key;
use crate::predicate::Change;

/// The owner references that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    Controller,
    All,
}

/// Appends the keys that a change queues.
type Keys = dyn Fn(&Change<'_>, &mut Vec<Key>) + Send + Sync;

/// The mapping from an event to the keys that it queues.
#[derive(Clone)]
pub(super) struct Map {
    pub(super) keys: Arc<Keys>,
    /// It takes less time than waking a task that does it.
    pub(super) quick: bool,
}

impl Map {
    fn quick(keys: impl Fn(&Change<'_>, &mut Vec<Key>) + Send + Sync + 'static) -> Self {
        Map { keys: Arc::new(keys), quick: true }
    }
}

/// The object itself.
pub(super) fn map_self() -> Map {
    Map::quick(|change, keys| {
        if let Some(object) = change.object() {
            keys.push(object.key().clone());
        }
    })
}

/// Maps the old and the new object to those of their owners that are of the controller's own kind.
pub(super) fn map_owner(own: OwnKind, owners_that_count: Owners) -> Map {
    let OwnKind { group, kind, namespaced } = own;
    let every = owners_that_count == Owners::All;
    Map::quick(move |change, keys| {
        let mut old_owners: Option<&[OwnerReference]> = None;
        for object in change.objects() {
            let owners = object.owner_references();
            // Most updates leave the owners as they are.
            if old_owners.is_some_and(|old| std::ptr::eq(old, owners) || old == owners) {
                continue;
            }
            old_owners = Some(owners);
            for owner in owners.iter().filter(|owner| every || owner.controller == Some(true)) {
                let owner_group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
                if owner.kind == kind && owner_group == group {
                    keys.push(match object.key().namespace().filter(|_| namespaced) {
                        Some(namespace) => Key::namespaced(namespace, &owner.name),
                        None => Key::cluster(&owner.name),
                    });
                }
            }
        }
    })
}

/// The keys that a function of one object returns, for the old and the new one.
pub(super) fn map_objects(map: impl Fn(&Object) -> Vec<Key> + Send + Sync + 'static) -> Map {
    map_changes(move |change| change.objects().flat_map(&map).collect())
}

/// The keys that an author's function returns: it may take its time, on a task of its own.
pub(super) fn map_changes(map: impl Fn(&Change<'_>) -> Vec<Key> + Send + Sync + 'static) -> Map {
    Map { keys: Arc::new(move |change, keys| keys.extend(map(change))), quick: false }
}
