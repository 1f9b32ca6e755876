//! Which nodes a pod's node selector and node affinity name.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};

use crate::object::selector::{Labels, contains};

fn node_affinity(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}

/// Whether the pod's node selector and required affinity accept the node.
pub fn accepts(spec: &PodSpec, name: &str, labels: &Labels) -> bool {
    let selected = spec.node_selector.as_ref().is_none_or(|wanted| contains(Some(labels), wanted));
    let required = node_affinity(spec)
        .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|required| selects(required, name, labels))
}

/// Whether one of the selector's terms names the node.
pub fn selects(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector.node_selector_terms.iter().any(|term| matches_term(term, name, labels))
}

/// The weight of the preferences that the node meets.
pub fn preference(spec: &PodSpec, name: &str, labels: &Labels) -> i64 {
    let preferred = node_affinity(spec)
        .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref());
    let met = preferred.into_iter().flatten().filter(|term| {
        // An empty preference, unlike an empty requirement, is met everywhere.
        is_empty(&term.preference) || matches_term(&term.preference, name, labels)
    });
    met.map(|term| i64::from(term.weight)).sum()
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    let empty = |list: &Option<Vec<_>>| list.as_ref().is_none_or(Vec::is_empty);
    empty(&term.match_expressions) && empty(&term.match_fields)
}

/// A term with no requirement selects no node.
fn matches_term(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let mut expressions = term.match_expressions.iter().flatten();
    let mut fields = term.match_fields.iter().flatten();
    !is_empty(term)
        && expressions.all(|requirement| meets(requirement, labels.get(&requirement.key).map(String::as_str)))
        && fields.all(|requirement| requirement.key == "metadata.name" && meets(requirement, Some(name)))
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let ordered = |holds: fn(i64, i64) -> bool| {
        let [limit] = values else { return false };
        let numbers = value.and_then(|value| value.parse().ok()).zip(limit.parse().ok());
        numbers.is_some_and(|(value, limit)| holds(value, limit))
    };
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => ordered(|value, limit| value > limit),
        "Lt" => ordered(|value, limit| value < limit),
        _ => false,
    }
}
