//! Which DaemonSets a change to a node concerns.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Taint};
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use super::placement::{Placement, Verdict};

/// Returns the DaemonSets whose verdict on the node changed. Heartbeats change none.
pub fn of_node(change: &Change<'_>, sets: &Lister<DaemonSet>) -> Vec<Key> {
    let same = |(old, new): (&Object, &Object)| old.labels() == new.labels() && taints(old) == taints(new);
    if change.update().is_some_and(same) {
        return Vec::new();
    }
    let decoded = |object: Option<&Object>| object.and_then(|object| object.decode::<Node>().ok());
    let (old, new) = (decoded(change.old), decoded(change.new));
    let concerned = |set: &DaemonSet| {
        let placement = Placement::of(set);
        let verdict =
            |node: &Option<Node>| node.as_ref().map_or(Verdict::default(), |node| placement.verdict(node));
        verdict(&old) != verdict(&new)
    };
    let all = sets.list().unwrap_or_default();
    let concerned = all.iter().filter(|set| concerned(set));
    let key = |set: &std::sync::Arc<DaemonSet>| {
        let meta = &set.metadata;
        Some(Key::namespaced(meta.namespace.as_deref()?, meta.name.as_deref()?))
    };
    concerned.filter_map(key).collect()
}

/// Decodes the taints only: the status is most of a node.
fn taints(node: &Object) -> Vec<Taint> {
    #[derive(Default, serde::Deserialize)]
    struct Spec {
        #[serde(default)]
        taints: Vec<Taint>,
    }
    #[derive(serde::Deserialize)]
    struct Tainted {
        #[serde(default)]
        spec: Spec,
    }
    node.decode::<Tainted>().map(|node| node.spec.taints).unwrap_or_default()
}
