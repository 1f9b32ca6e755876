//! Descriptions of watches: the objects, and the keys that a change of them queues.

use std::fmt;

use super::mapping::{Map, Owners, map_changes, map_objects, map_owner, map_self};
use crate::client::{Kind, OwnKind};
use crate::informer::{Object, Target};
use crate::key::Key;
use crate::manager::Manager;
use crate::predicate::{Change, Predicate};

/// The description of a watch: which objects, which events of them, and which keys an event queues.
///
/// Without a mapping a watch queues the owner that controls the changed object, as [`Watch::by_owner`] says.
///
/// ```
/// use k8s_openapi::api::core::v1::{Pod, Secret};
/// use setpoint::informer::Target;
/// use setpoint::{Key, Watch, predicate};
///
/// // The Pods that the controller's objects control, without changes of their status.
/// let owned = Watch::of::<Pod>().by_owner().with_predicate(predicate::generation_changed());
/// // Secrets of one namespace, each mapped to the object of the same name.
/// let target = Target::of::<Secret>().in_namespace("certificates");
/// let mapped = Watch::of_target(target).map(|secret| vec![Key::namespaced("default", secret.name())]);
/// # drop((owned, mapped));
/// ```
#[must_use = "a description alone watches nothing"]
pub struct Watch {
    objects: Objects,
    mapping: Mapping,
    predicates: Vec<Predicate>,
}

enum Objects {
    /// A kind, in the namespaces of the manager.
    Kind(fn(&Manager) -> Target),
    Target(Target),
}

enum Mapping {
    Owner(Owners),
    Map(Map),
}

impl Watch {
    /// Watches a kind, in the namespaces of the manager.
    pub fn of<K: Kind>() -> Self {
        Watch::new(Objects::Kind(Manager::target::<K>))
    }

    /// Watches a part of a kind, or a kind that is known only at run time.
    pub fn of_target(target: Target) -> Self {
        Watch::new(Objects::Target(target))
    }

    fn new(objects: Objects) -> Self {
        Watch { objects, mapping: Mapping::Owner(Owners::Controller), predicates: Vec::new() }
    }

    /// Queues the owner that controls the changed object (`controller: true`), if it is of the controller's own kind.
    pub fn by_owner(self) -> Self {
        Watch { mapping: Mapping::Owner(Owners::Controller), ..self }
    }

    /// Queues every owner of the changed object that is of the controller's own kind.
    pub fn by_any_owner(self) -> Self {
        Watch { mapping: Mapping::Owner(Owners::All), ..self }
    }

    /// Queues the key of the changed object itself: for objects of the controller's own kind.
    pub fn by_self(self) -> Self {
        Watch { mapping: Mapping::Map(map_self()), ..self }
    }

    /// Queues the keys that `map` returns for the changed object. After an update `map` gets the old object and the new
    /// one.
    pub fn map(self, map: impl Fn(&Object) -> Vec<Key> + Send + Sync + 'static) -> Self {
        Watch { mapping: Mapping::Map(map_objects(map)), ..self }
    }

    /// As [`Watch::map`], with the old and the new object together.
    pub fn map_changes(self, map: impl Fn(&Change<'_>) -> Vec<Key> + Send + Sync + 'static) -> Self {
        Watch { mapping: Mapping::Map(map_changes(map)), ..self }
    }

    /// Ignores events that do not pass the predicate. An event must pass all predicates of its watch.
    pub fn with_predicate(mut self, predicate: Predicate) -> Self {
        self.predicates.push(predicate);
        self
    }

    pub(super) fn target(&self, manager: &Manager) -> Target {
        match &self.objects {
            Objects::Kind(target) => target(manager),
            Objects::Target(target) => target.clone(),
        }
    }

    /// The mapping and the predicates, or `None` if the mapping is by owner and the controller has no kind.
    pub(super) fn resolve(self, own: Option<&OwnKind>) -> Option<(Map, Vec<Predicate>)> {
        let map = match self.mapping {
            Mapping::Map(map) => map,
            Mapping::Owner(owners) => map_owner(own?.clone(), owners),
        };
        Some((map, self.predicates))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("predicates", &self.predicates).finish_non_exhaustive()
    }
}
