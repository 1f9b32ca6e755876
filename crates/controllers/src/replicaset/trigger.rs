//! Which ReplicaSets a change to a pod concerns.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint::predicate::Change;
use setpoint::{Lister, Object, Request};

use crate::field::replica_set_spec;
use crate::selector::{self, Labels};

/// An owned pod concerns its owner; an orphan, every ReplicaSet that might adopt it.
pub fn of_pod(change: &Change<'_>, sets: &Lister<ReplicaSet>) -> Vec<Request> {
    let Some(present) = change.object() else { return Vec::new() };
    let namespace = present.namespace().unwrap_or_default();
    let owner = |object: Option<&Object>| object.and_then(Object::controller_owner).cloned();
    let (was, is) = (owner(change.old), owner(change.new));
    let mut requests = Vec::new();
    if was != is {
        requests.extend(was.as_ref().and_then(|owner| request(namespace, owner)));
    }
    match (&is, change.new) {
        (Some(owner), _) => requests.extend(request(namespace, owner)),
        (None, Some(new)) if !new.is_terminating() => {
            let relabelled = change.old.is_none_or(|old| old.labels() != new.labels());
            if relabelled || was.is_some() {
                requests.extend(matching(namespace, new, sets));
            }
        }
        (None, _) => {}
    }
    requests
}

fn request(namespace: &str, owner: &OwnerReference) -> Option<Request> {
    let ours = owner.kind == "ReplicaSet" && owner.api_version.starts_with("apps/");
    ours.then(|| Request::namespaced(namespace, &owner.name))
}

fn matching(namespace: &str, pod: &Object, sets: &Lister<ReplicaSet>) -> Vec<Request> {
    let labels: Labels = pod.labels().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if labels.is_empty() {
        return Vec::new();
    }
    let all = sets.list_namespace(namespace).unwrap_or_default();
    let selecting = all.iter().filter(|set| {
        let selector = &replica_set_spec(set).selector;
        !selector::is_empty(selector) && selector::matches(selector, Some(&labels))
    });
    let name = |set: &std::sync::Arc<ReplicaSet>| set.metadata.name.clone();
    selecting.filter_map(name).map(|name| Request::namespaced(namespace, &name)).collect()
}
