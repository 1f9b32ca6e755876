//! Which owners a change to a child concerns.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Key, Kind, Object};

use crate::object::selector;

/// The owners of one kind, and how they select.
pub struct Owners<K: Kind> {
    pub lister: Lister<K>,
    pub selector: fn(&K) -> Option<Cow<'_, LabelSelector>>,
}

impl<K: Kind> Owners<K> {
    /// An owned child concerns its owner; an orphan, every owner that might adopt it.
    pub fn of_child(&self, change: &Change<'_>) -> Vec<Key> {
        let Some(present) = change.object() else { return Vec::new() };
        let namespace = present.namespace().unwrap_or_default();
        let owner = |object: Option<&Object>| object.and_then(Object::controller_owner).cloned();
        let (was, is) = (owner(change.old), owner(change.new));
        let mut requests = Vec::new();
        if was != is {
            requests.extend(was.as_ref().and_then(|owner| request::<K>(namespace, owner)));
        }
        match (&is, change.new) {
            (Some(owner), _) => requests.extend(request::<K>(namespace, owner)),
            (None, Some(new)) if !new.is_terminating() => {
                let relabelled = change.old.is_none_or(|old| old.labels() != new.labels());
                if relabelled || was.is_some() {
                    requests.extend(self.selecting(namespace, new));
                }
            }
            (None, _) => {}
        }
        requests
    }

    fn selecting(&self, namespace: &str, child: &Object) -> Vec<Key> {
        let labels = selector::labels_of(child);
        if labels.is_empty() {
            return Vec::new();
        }
        let all = self.lister.list_namespace(namespace).unwrap_or_default();
        let selecting = all.iter().filter(|owner| {
            (self.selector)(owner).is_some_and(|selector| {
                !selector::is_empty(&selector) && selector::matches(&selector, Some(&labels))
            })
        });
        let name = |owner: &std::sync::Arc<K>| owner.meta().name.clone();
        selecting.filter_map(name).map(|name| Key::namespaced(namespace, &name)).collect()
    }
}

fn request<K: Kind>(namespace: &str, owner: &OwnerReference) -> Option<Key> {
    is_of_kind::<K>(owner).then(|| Key::namespaced(namespace, &owner.name))
}

/// Whether this names an object of the kind, in whatever version.
pub fn is_of_kind<K: Kind>(owner: &OwnerReference) -> bool {
    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
    owner.kind == K::kind_name() && group == K::group(&())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use serde_json::{Value, json};
    use setpoint::informer::{Delta, Scope, Store};
    use setpoint::queue::Trigger;

    use super::*;

    fn set(name: &str, selector: Value) -> Object {
        let value = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": { "name": name, "namespace": "ns", "uid": name, "resourceVersion": "1" },
            "spec": { "selector": selector, "template": {} } });
        Object::from_json(value.to_string().as_bytes()).unwrap()
    }

    /// A pod labelled `app`, controlled by this ReplicaSet, perhaps on its way out.
    fn pod(app: &str, owner: Option<&str>, going: bool) -> Object {
        let owners: Vec<Value> = owner
            .iter()
            .map(|name| json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true }))
            .collect();
        let mut value = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "ns",
            "uid": "p", "resourceVersion": "2", "labels": { "app": app }, "ownerReferences": owners } });
        if going {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Object::from_json(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn every_change_of_a_pod_queues_whom_it_concerns() {
        let store = Store::default();
        let web = json!({ "matchLabels": { "app": "web" } });
        let objects = vec![set("a", web.clone()), set("b", web), set("all", json!({}))];
        store.apply(&Scope::All, Delta::Replaced { revision: 9, objects });
        let sets: Owners<ReplicaSet> = Owners {
            lister: Lister::new(store),
            selector: |set| Some(Cow::Borrowed(&crate::object::field::replica_set_spec(set).selector)),
        };
        // what happened; before, after → queued
        for (what, old, new, expected) in [
            ("owned, added", None, Some(pod("web", Some("a"), false)), vec!["a"]),
            ("orphan, added: all that match", None, Some(pod("web", None, false)), vec!["a", "b"]),
            ("orphan, added while going", None, Some(pod("web", None, true)), vec![]),
            (
                "owned, going",
                Some(pod("web", Some("a"), false)),
                Some(pod("web", Some("a"), true)),
                vec!["a"],
            ),
            ("owned, deleted", Some(pod("web", Some("a"), true)), None, vec!["a"]),
            ("orphan, deleted", Some(pod("web", None, false)), None, vec![]),
            (
                "handed over: both",
                Some(pod("web", Some("a"), false)),
                Some(pod("web", Some("b"), false)),
                vec!["a", "b"],
            ),
            (
                "released: owner and matching",
                Some(pod("web", Some("x"), false)),
                Some(pod("web", None, false)),
                vec!["a", "b", "x"],
            ),
            (
                "orphan, relabelled",
                Some(pod("db", None, false)),
                Some(pod("web", None, false)),
                vec!["a", "b"],
            ),
            (
                "orphan, its status changed",
                Some(pod("web", None, false)),
                Some(pod("web", None, false)),
                vec![],
            ),
        ] {
            let change = Change { trigger: Trigger::Updated, old: old.as_ref(), new: new.as_ref() };
            let mut names: Vec<String> =
                sets.of_child(&change).iter().map(|request| request.name().to_owned()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names, expected, "{what}");
        }
    }
}
