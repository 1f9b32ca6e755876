//! A DaemonSet's pod for a node, and the node of a DaemonSet's pod.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::placement::tolerations;
use super::{REVISION_HASH, TEMPLATE_GENERATION, TEMPLATE_GENERATION_OF_SET};
use crate::children::claim::controller_reference;
use crate::object::field::daemon_set_spec;
use crate::object::pod::node_name;

/// The only field that node affinity knows.
const NAME_FIELD: &str = "metadata.name";

/// The generation of the template that the API server counts, if it is a number.
fn generation(set: &DaemonSet) -> Option<String> {
    let text = set.metadata.annotations.as_ref()?.get(TEMPLATE_GENERATION_OF_SET)?;
    text.parse::<i64>().ok().map(|number| number.to_string())
}

/// Whether the pod is of the DaemonSet's present template.
pub fn is_updated(set: &DaemonSet, hash: &str, pod: &Pod) -> bool {
    let label = |name: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let by_generation =
        || generation(set).is_some_and(|generation| label(TEMPLATE_GENERATION) == Some(&generation));
    label(REVISION_HASH).is_some_and(|found| found == hash) || by_generation()
}

/// The pod for a node. The scheduler binds it there, as it does all pods: it counts what daemons take.
pub fn pod_for_node(set: &DaemonSet, hash: &str, node: &str) -> Pod {
    let template = daemon_set_spec(set).template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut labels = meta.labels.unwrap_or_default();
    labels.insert(REVISION_HASH.to_owned(), hash.to_owned());
    if let Some(generation) = generation(set) {
        labels.insert(TEMPLATE_GENERATION.to_owned(), generation);
    }
    let mut spec = template.spec.unwrap_or_default();
    spec.tolerations = Some(tolerations(&spec));
    require_node(&mut spec, node);
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference("apps/v1", "DaemonSet", &set.metadata)]),
            ..Default::default()
        },
        spec: Some(spec),
        status: None,
    }
}

/// Replaces the terms of the required affinity: that the node meets them is why the pod is made.
fn require_node(spec: &mut PodSpec, node: &str) {
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: NAME_FIELD.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    required.node_selector_terms = vec![term];
}

/// The node that the pod is on or is made for.
pub fn node_of(pod: &Pod) -> Option<&str> {
    let bound = node_name(pod);
    if !bound.is_empty() {
        return Some(bound);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.find(|field| field.key == NAME_FIELD && field.operator == "In")?;
    match named.values.as_deref() {
        Some([node]) => Some(node),
        _ => None,
    }
}
