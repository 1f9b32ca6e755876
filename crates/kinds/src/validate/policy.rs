//! Budgets, priorities, leases.

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use super::meta;
use crate::access::{at, int, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Path};

pub(super) fn disruption_budget(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let (least, most) = (at(spec, "minAvailable"), at(spec, "maxUnavailable"));
    if !least.is_null() && !most.is_null() {
        let shown = BadValue::raw(go_struct::line("policy.PodDisruptionBudgetSpec", spec));
        causes.invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for (field, value) in [("minAvailable", least), ("maxUnavailable", most)] {
        let path = path.child(field);
        causes.positive_int_or_percent(&path, value);
        causes.at_most_hundred_percent(&path, value);
    }
    causes.extend(meta::label_selector(at(spec, "selector"), &path.child("selector")));
    if let Some(policy) = at(spec, "unhealthyPodEvictionPolicy").as_str() {
        let known = ["AlwaysAllow", "IfHealthyBudget"];
        causes.one_of(&path.child("unhealthyPodEvictionPolicy"), policy, &known);
    }
}

pub(super) fn priority_class(causes: &mut Causes, object: &Value) {
    let name = text(object, "metadata.name");
    let value = int(object, "value").unwrap_or_default();
    if name.starts_with("system-") {
        let known = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
        if !known.contains(&(name, value)) {
            let why = match known.iter().find(|(known, _)| *known == name) {
                Some((known, wanted)) => format!("value of {known} PriorityClass must be {wanted}"),
                None => format!("{name} is not a known system priority class"),
            };
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            causes.forbidden(&Path::new("metadata.name"), &detail);
        }
    } else if value > 1_000_000_000 {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        causes.forbidden(&Path::new("value"), detail);
    }
    let policy = text(object, "preemptionPolicy");
    if !policy.is_empty() {
        causes.one_of(&Path::new("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

pub(super) fn priority_class_update(causes: &mut Causes, new: &Value, old: &Value) {
    if int(new, "value") != int(old, "value") {
        causes.forbidden(&Path::new("value"), "may not be changed in an update.");
    }
    if text(new, "preemptionPolicy") != text(old, "preemptionPolicy") {
        let shown = text(new, "preemptionPolicy");
        causes.invalid(&Path::new("preemptionPolicy"), shown, meta::IMMUTABLE);
    }
}

pub(super) fn lease(causes: &mut Causes, object: &Value) {
    let path = Path::new("spec");
    if let Some(seconds) = int(object, "spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        causes.invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    if let Some(times) = int(object, "spec.leaseTransitions").filter(|times| *times < 0) {
        causes.invalid(&path.child("leaseTransitions"), times, NOT_NEGATIVE);
    }
}
