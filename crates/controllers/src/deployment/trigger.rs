//! Which Deployments a change to a ReplicaSet or pod concerns.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use crate::object::field::deployment_spec;
use crate::object::selector;

/// Whether old pods must all be gone before new ones come.
pub fn is_recreate(deployment: &Deployment) -> bool {
    deployment_spec(deployment).strategy.as_ref().and_then(|strategy| strategy.type_.as_deref())
        == Some("Recreate")
}

/// The Deployments as the cache has them.
pub struct Deployments(pub Lister<Deployment>);

impl Deployments {
    /// An owned ReplicaSet concerns its owner; an orphan, every Deployment that might adopt it.
    pub fn of_replica_set(&self, change: &Change<'_>) -> Vec<Key> {
        let (old, new) = (change.old, change.new);
        let Some(present) = change.object() else { return Vec::new() };
        let namespace = present.namespace().unwrap_or_default();
        let mut requests = Vec::new();
        let owner = |object: Option<&Object>| object.and_then(Object::controller_owner).cloned();
        let (was, is) = (owner(old), owner(new));
        if was != is {
            requests.extend(was.as_ref().and_then(|owner| self.owner(namespace, owner)));
        }
        match (&is, new) {
            (Some(owner), _) => requests.extend(self.owner(namespace, owner)),
            // The ReplicaSet is gone or terminating: nothing adopts it.
            (None, None) => {}
            (None, Some(new)) if new.is_terminating() => {}
            (None, Some(new)) => {
                let relabelled = old.is_none_or(|old| old.labels() != new.labels());
                if relabelled || was.is_some() {
                    requests.extend(self.matching(namespace, new));
                }
            }
        }
        requests
    }

    fn owner(&self, namespace: &str, owner: &OwnerReference) -> Option<Key> {
        if owner.kind != "Deployment" || !owner.api_version.starts_with("apps/") {
            return None;
        }
        let known = self.0.get(Some(namespace), &owner.name).ok().flatten();
        // A namesake with another uid is another Deployment. An unknown one is asked for: the cache may be behind.
        let same = known.is_none_or(|known| known.metadata.uid.as_ref() == Some(&owner.uid));
        same.then(|| Key::namespaced(namespace, &owner.name))
    }

    fn matching(&self, namespace: &str, set: &Object) -> Vec<Key> {
        let labels = selector::labels_of(set);
        if labels.is_empty() {
            return Vec::new();
        }
        let all = self.0.list_namespace(namespace).unwrap_or_default();
        let selects = |deployment: &&Arc<Deployment>| {
            let selector = &deployment_spec(deployment).selector;
            !selector::is_empty(selector) && selector::matches(selector, Some(&labels))
        };
        let name = |deployment: &Arc<Deployment>| deployment.metadata.name.clone();
        all.iter().filter(selects).filter_map(name).map(|name| Key::namespaced(namespace, &name)).collect()
    }
}

/// The last pod to go lets a Recreate rollout move on.
pub fn of_pod(change: &Change<'_>, sets: &Lister<ReplicaSet>, deployments: &Lister<Deployment>) -> Vec<Key> {
    let (Some(pod), None) = (change.old, change.new) else { return Vec::new() };
    let namespace = pod.namespace().unwrap_or_default();
    let request = || {
        let set = pod.controller_owner().filter(|owner| owner.kind == "ReplicaSet")?;
        let set = sets.get(Some(namespace), &set.name).ok()??;
        let owner = crate::children::claim::controller_of(&set.metadata)?;
        let deployment = deployments.get(Some(namespace), &owner.name).ok()??;
        is_recreate(&deployment).then(|| Key::namespaced(namespace, &owner.name))
    };
    request().into_iter().collect()
}
