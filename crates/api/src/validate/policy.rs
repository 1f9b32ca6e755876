//! Budgets, autoscalers, priorities, leases, quotas.

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use super::{meta, pod};
use crate::access::{at, entries, int, items, text};
use crate::cause::{Cause, Path, Shown};
use crate::name;
use crate::quantity::Quantity;
use crate::shown;

pub(super) fn disruption_budget(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let (least, most) = (at(spec, "minAvailable"), at(spec, "maxUnavailable"));
    if !least.is_null() && !most.is_null() {
        let shown = Shown::raw(shown::line("policy.PodDisruptionBudgetSpec", spec));
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

fn quota_resources(causes: &mut Causes, object: &Value, field: &str) {
    for (resource, amount) in entries(object, field) {
        let path = Path::new(field).key(resource);
        pod::resource_name(causes, resource, &path);
        if !resource.contains('/') && !pod::standard_resource(resource) {
            causes.invalid(&path, resource, "must be a standard resource for quota");
        }
        let Ok(amount) = Quantity::from_json(amount) else { continue };
        if amount.signum() < 0 {
            causes.invalid(&path, amount.to_string(), NOT_NEGATIVE);
        }
        if pod::integer_resource(resource) && amount.milli_value() % 1000 != 0 {
            causes.invalid(&path, amount.to_string(), "must be an integer");
        }
    }
}

pub(super) fn resource_quota(causes: &mut Causes, object: &Value) {
    quota_resources(causes, object, "spec.hard");
    quota_scopes(causes, object);
}

const SCOPE_PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn quota_scopes(causes: &mut Causes, object: &Value) {
    let path = Path::new("spec.scopes");
    let scopes: Vec<&str> = items(object, "spec.scopes").iter().filter_map(Value::as_str).collect();
    let shown = || Shown::from(&Value::from(scopes.clone()));
    for scope in &scopes {
        let Some(scoped) = scoped_resources(scope) else {
            causes.invalid(&path, shown(), "unsupported scope");
            continue;
        };
        for (resource, _) in entries(object, "spec.hard") {
            if pod::standard_resource(resource) && !scoped.contains(&resource.as_str()) {
                causes.invalid(&path, shown(), "unsupported scope applied to resource");
            }
        }
    }
    for pair in SCOPE_PAIRS {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            causes.invalid(&path, shown(), "conflicting scopes");
        }
    }
}

/// What a quota of this scope may count.
fn scoped_resources(scope: &str) -> Option<&'static [&'static str]> {
    const PODS: &[&str] =
        &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => Some(PODS),
        "BestEffort" => Some(&PODS[..1]),
        "VolumeAttributesClass" => Some(&["persistentvolumeclaims", "requests.storage"]),
        _ => None,
    }
}

pub(super) fn resource_quota_status(causes: &mut Causes, object: &Value) {
    quota_resources(causes, object, "status.hard");
    quota_resources(causes, object, "status.used");
}

pub(super) fn limit_range(causes: &mut Causes, object: &Value) {
    let mut types: Vec<&str> = Vec::new();
    for (index, limit) in items(object, "spec.limits").iter().enumerate() {
        let path = Path::new("spec.limits").index(index);
        let kind = text(limit, "type");
        let wrong = name::qualified_name(kind);
        causes.wrong(&path.child("type"), kind, &wrong);
        let standard = kind.contains('/') || matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
        if wrong.is_empty() && !standard {
            let detail = "must be a standard limit type or fully qualified";
            causes.invalid(&path.child("type"), kind, detail);
        }
        if types.contains(&kind) {
            causes.push(Cause::duplicate(&path.child("type"), kind));
        }
        types.push(kind);
        limit_bounds(causes, limit, &path);
    }
}

/// Least, most and default of each resource are in order.
fn limit_bounds(causes: &mut Causes, limit: &Value, path: &Path) {
    let mut resources: Vec<&String> = ["max", "min", "default", "defaultRequest"]
        .iter()
        .flat_map(|field| entries(limit, field).map(|(resource, _)| resource))
        .collect();
    resources.sort();
    resources.dedup();
    for resource in resources {
        let amount =
            |field: &str| at(limit, field).get(resource).and_then(|one| Quantity::from_json(one).ok());
        let (least, most) = (amount("min"), amount("max"));
        let (default, request) = (amount("default"), amount("defaultRequest"));
        let mut wrong = |field: &str, shown: Quantity, detail: String| {
            causes.invalid(&path.child(field).key(resource), shown.to_string(), &detail);
        };
        if let (Some(a), Some(b)) = (least, most)
            && a > b
        {
            wrong("min", a, format!("min value {a} is greater than max value {b}"));
        }
        if let (Some(a), Some(b)) = (least, request)
            && a > b
        {
            wrong("defaultRequest", b, format!("min value {a} is greater than default request value {b}"));
        }
        if let (Some(a), Some(b)) = (request, most)
            && a > b
        {
            wrong("defaultRequest", a, format!("default request value {a} is greater than max value {b}"));
        }
        if let (Some(a), Some(b)) = (request, default)
            && a > b
        {
            let detail = format!("default request value {a} is greater than default limit value {b}");
            wrong("defaultRequest", a, detail);
        }
        if let (Some(a), Some(b)) = (least, default)
            && a > b
        {
            wrong("default", a, format!("min value {a} is greater than default value {b}"));
        }
        if let (Some(a), Some(b)) = (default, most)
            && a > b
        {
            wrong("default", b, format!("default value {a} is greater than max value {b}"));
        }
    }
}
