//! Which budgets a change to a pod concerns.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use setpoint::informer::Lister;
use setpoint::predicate::Change;
use setpoint::{Key, Object};

use super::plan::selects;
use crate::object::selector::labels_of;

/// The objects that a change of a pod concerns.
#[derive(Default)]
pub struct Concerned {
    /// The budgets that select the pod, or selected it before its labels changed.
    pub budgets: Vec<Key>,
    /// The pod and what to say of it, where more than one budget selects it: it cannot be evicted.
    pub ambiguous: Option<(ObjectReference, String)>,
}

/// Finds the budgets that a change to a pod concerns.
pub fn of_pod(change: &Change<'_>, budgets: &Lister<PodDisruptionBudget>) -> Concerned {
    let Some(pod) = change.object() else { return Concerned::default() };
    let namespace = pod.namespace().unwrap_or_default();
    let all = budgets.list_namespace(namespace).unwrap_or_default();
    // Most namespaces have no budget: the labels of their pods are not copied.
    if all.is_empty() {
        return Concerned::default();
    }
    let selecting = |pod: &Object| -> BTreeSet<&str> {
        let labels = labels_of(pod);
        let selecting = all.iter().filter(|budget| selects(budget, Some(&labels)));
        selecting.filter_map(|budget| budget.metadata.name.as_deref()).collect()
    };
    let names: BTreeSet<&str> = change.objects().flat_map(selecting).collect();
    let now = change.new.map(|pod| (pod, selecting(pod))).filter(|(_, names)| names.len() > 1);
    let ambiguous = now.and_then(|(pod, names)| Some((pod, *names.first()?))).map(|(pod, first)| {
        let name = pod.name();
        // The two spaces are kube-controller-manager's.
        let message = format!(
            "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {first:?} arbitrarily."
        );
        (reference(pod), message)
    });
    Concerned { budgets: names.iter().map(|name| Key::namespaced(namespace, name)).collect(), ambiguous }
}

fn reference(pod: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: pod.namespace().map(str::to_owned),
        name: Some(pod.name().to_owned()),
        uid: Some(pod.uid().to_string()),
        resource_version: Some(pod.resource_version()),
        ..ObjectReference::default()
    }
}
