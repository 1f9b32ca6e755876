//! Scopes: of which pods and claims a quota counts what they use.

use serde_json::Value;

use super::{Tracked, claim, pod};
use crate::access::{at, items, text};
use crate::strategy::qos_class;

/// Whether the object is in all scopes of the quota.
pub(super) fn covers(quota: &Value, tracked: &Tracked, object: &Value) -> bool {
    let named = items(quota, "spec.scopes").iter().filter_map(Value::as_str);
    let selected = items(quota, "spec.scopeSelector.matchExpressions").iter();
    named
        .map(|scope| Scope { name: scope, operator: "Exists", values: &[] })
        .chain(selected.map(scope_of))
        .all(|scope| match tracked {
            Tracked::Pods => scope.has_pod(object),
            Tracked::Claims => scope.has_claim(object),
            // Nothing else has scopes.
            Tracked::Services | Tracked::Objects(_) => false,
        })
}

struct Scope<'q> {
    name: &'q str,
    operator: &'q str,
    values: &'q [Value],
}

fn scope_of(requirement: &Value) -> Scope<'_> {
    Scope {
        name: text(requirement, "scopeName"),
        operator: text(requirement, "operator"),
        values: items(requirement, "values"),
    }
}

impl Scope<'_> {
    fn has_pod(&self, object: &Value) -> bool {
        match self.name {
            "Terminating" => pod::terminates(object),
            "NotTerminating" => !pod::terminates(object),
            "BestEffort" => is_best_effort(object),
            "NotBestEffort" => !is_best_effort(object),
            "PriorityClass" => {
                let class = text(object, "spec.priorityClassName");
                self.selects((!class.is_empty()).then_some(class))
            }
            "CrossNamespacePodAffinity" => reaches_other_namespaces(object),
            _ => false,
        }
    }

    fn has_claim(&self, object: &Value) -> bool {
        let classes = claim::attributes_classes(object);
        self.name == "VolumeAttributesClass"
            && match classes.as_slice() {
                [] => self.selects(None),
                classes => classes.iter().any(|class| self.selects(Some(class))),
            }
    }

    /// As a label selector would.
    fn selects(&self, class: Option<&str>) -> bool {
        let listed = || class.is_some_and(|class| self.values.iter().any(|value| value == class));
        match self.operator {
            "Exists" => class.is_some(),
            "DoesNotExist" => class.is_none(),
            "In" => listed(),
            "NotIn" => !listed(),
            _ => false,
        }
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let noted = text(pod, "status.qosClass");
    (if noted.is_empty() { qos_class(pod) } else { noted }) == "BestEffort"
}

/// Whether the pod is to be near, or far from, pods of namespaces that it names.
fn reaches_other_namespaces(pod: &Value) -> bool {
    let reaches =
        |term: &Value| !items(term, "namespaces").is_empty() || !at(term, "namespaceSelector").is_null();
    ["spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"].iter().any(|kind| {
        let affinity = at(pod, kind);
        items(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(reaches)
            || items(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|weighted| reaches(at(weighted, "podAffinityTerm")))
    })
}
