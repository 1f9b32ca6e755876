//! Pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Context, keep_all_but, reset_metadata};
use crate::access::{at, at_mut, copy, entries, int, is_empty, items, items_mut, remove, set, text};
use setpoint_api::clock::rfc3339_seconds;
use setpoint_api::quantity::Quantity;

pub(super) fn create(pod: &mut Value, context: &Context<'_>) {
    let mut status = json!({"phase": "Pending"});
    if !items(pod, "spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": rfc3339_seconds(context.now), "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    set(pod, "status", status);
    merge_label_keys(pod);
    let class = qos_class(pod);
    set(pod, "status.qosClass", class.into());
}

pub(super) fn update(pod: &mut Value, old: &Value) {
    if at(pod, "spec.resources").is_null() {
        copy(pod, old, "spec.resources");
    }
}

pub(super) fn update_status(pod: &mut Value, old: &Value) {
    remove(pod, "metadata.deletionTimestamp");
    copy(pod, old, "metadata.ownerReferences");
    if is_empty(pod, "status.qosClass") {
        copy(pod, old, "status.qosClass");
    }
    for path in [
        "status.resourceClaimStatuses",
        "status.extendedResourceClaimStatus",
        "status.nodeAllocatableResourceClaimStatuses",
    ] {
        if at(pod, path).is_null() {
            copy(pod, old, path);
        }
    }
    keep_observed_generation(pod, old);
}

/// A client that does not know the field does not clear it.
fn keep_observed_generation(pod: &mut Value, old: &Value) {
    if int(pod, "status.observedGeneration").unwrap_or_default() == 0 {
        copy(pod, old, "status.observedGeneration");
    }
    let mut known: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for condition in items(old, "status.conditions").iter().rev() {
        let generation = int(condition, "observedGeneration").unwrap_or_default();
        known.entry(text(condition, "type").to_owned()).or_default().push(generation);
    }
    for condition in items_mut(pod, "status.conditions") {
        let earlier = known.get_mut(text(condition, "type")).and_then(Vec::pop).unwrap_or_default();
        if int(condition, "observedGeneration").unwrap_or_default() == 0 && earlier != 0 {
            set(condition, "observedGeneration", earlier.into());
        }
    }
}

pub(super) fn ephemeral_containers(pod: &mut Value, old: &Value) {
    let containers = at(pod, "spec.ephemeralContainers").clone();
    keep_all_but(pod, old, &["metadata"]);
    reset_metadata(pod, old);
    set(pod, "spec.ephemeralContainers", containers);
}

/// Only resources and resize policies of the containers that are there.
pub(super) fn resize(pod: &mut Value, old: &Value) {
    let names = |pod: &Value, list: &str| -> Vec<String> {
        items(pod, list).iter().map(|one| text(one, "name").to_owned()).collect()
    };
    let lists = ["spec.containers", "spec.initContainers"];
    if lists.iter().any(|list| names(pod, list) != names(old, list)) {
        return;
    }
    let wanted = pod.clone();
    keep_all_but(pod, old, &["metadata"]);
    reset_metadata(pod, old);
    copy(pod, &wanted, "spec.resources");
    if at(pod, "spec.resources").is_null() {
        copy(pod, old, "spec.resources");
    }
    for list in lists {
        let wanted = items(&wanted, list);
        for (container, wanted) in items_mut(pod, list).iter_mut().zip(wanted) {
            copy(container, wanted, "resources");
            copy(container, wanted, "resizePolicy");
        }
    }
}

/// `matchLabelKeys` become part of the selectors they belong to.
fn merge_label_keys(pod: &mut Value) {
    let labels = at(pod, "metadata.labels").clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let base = format!("spec.affinity.{kind}");
        for term in items_mut(pod, &format!("{base}.requiredDuringSchedulingIgnoredDuringExecution")) {
            merge_term(term, &labels);
        }
        for weighted in items_mut(pod, &format!("{base}.preferredDuringSchedulingIgnoredDuringExecution")) {
            if let Some(term) = at_mut(weighted, "podAffinityTerm") {
                merge_term(term, &labels);
            }
        }
    }
    for constraint in items_mut(pod, "spec.topologySpreadConstraints") {
        merge_keys(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn merge_term(term: &mut Value, labels: &Value) {
    merge_keys(term, "matchLabelKeys", "In", labels);
    merge_keys(term, "mismatchLabelKeys", "NotIn", labels);
}

fn merge_keys(term: &mut Value, field: &str, operator: &str, labels: &Value) {
    if at(term, "labelSelector").is_null() {
        return;
    }
    let keys: Vec<String> =
        items(term, field).iter().filter_map(|key| key.as_str().map(str::to_owned)).collect();
    let mut expressions = items(term, "labelSelector.matchExpressions").to_vec();
    let before = expressions.len();
    for key in keys {
        if let Some(value) = labels.get(&key) {
            expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
        }
    }
    if expressions.len() > before {
        set(term, "labelSelector.matchExpressions", Value::Array(expressions));
    }
}

/// Guaranteed, Burstable or BestEffort, from what the containers ask for.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    if !at(pod, "spec.resources").is_null() {
        return class_of(std::iter::once(at(pod, "spec.resources")));
    }
    let containers = items(pod, "spec.containers").iter().chain(items(pod, "spec.initContainers"));
    class_of(containers.map(|container| at(container, "resources")))
}

fn class_of<'a>(resources: impl Iterator<Item = &'a Value>) -> &'static str {
    let mut requests: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut guaranteed = true;
    for one in resources {
        let mut limited = 0;
        for (field, sum) in [("requests", &mut requests), ("limits", &mut limits)] {
            for (name, amount) in entries(one, field) {
                if !matches!(&**name, "cpu" | "memory") {
                    continue;
                }
                let Ok(amount) = Quantity::from_json(amount) else { continue };
                if amount.signum() > 0 {
                    limited += usize::from(field == "limits");
                    let total = sum.get(&**name).map_or(amount, |total| *total + amount);
                    sum.insert(name, total);
                }
            }
        }
        guaranteed &= limited == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let same = requests.len() == limits.len()
        && requests.iter().all(|(name, amount)| limits.get(name) == Some(amount));
    if guaranteed && same { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_follows_from_what_containers_ask_for() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
        assert_eq!(qos_class(&pod(json!({}))), "BestEffort");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(qos_class(&pod(json!({"limits": both, "requests": both}))), "Guaranteed");
        assert_eq!(qos_class(&pod(json!({"limits": both, "requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(qos_class(&pod(json!({"requests": {"cpu": "1"}}))), "Burstable");
        assert_eq!(
            qos_class(&pod(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}}))),
            "Burstable"
        );
    }
}
