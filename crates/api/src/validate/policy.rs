//! Budgets, autoscalers, priorities, leases, quotas.

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use super::{meta, pod};
use crate::access::{at, entries, int, items, text};
use crate::cause::{Cause, Path, Shown};
use crate::name::{self, NameRule};
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

pub(super) fn autoscaler(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let mut missing = Causes::default();
    let most = int(spec, "maxReplicas").unwrap_or_default();
    let most_path = path.child("maxReplicas");
    let least = int(spec, "minReplicas");
    if let Some(least) = least.filter(|least| *least < 0) {
        missing.invalid(&path.child("minReplicas"), least, NOT_NEGATIVE);
    }
    match most {
        0 => missing.required(&most_path, ""),
        most if most < 0 => missing.invalid(&most_path, most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        causes.invalid(&most_path, most, "must be greater than or equal to `minReplicas`");
    }
    scale_target(causes, at(spec, "scaleTargetRef"), &path.child("scaleTargetRef"));
    let metrics = items(spec, "metrics");
    for (index, metric) in metrics.iter().enumerate() {
        metric_spec(causes, metric, &path.child("metrics").index(index));
    }
    let outside = metrics.iter().any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if least == Some(0) && !outside {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.forbidden(&path.child("metrics"), detail);
    }
    causes.extend(missing.0);
}

fn scale_target(causes: &mut Causes, target: &Value, path: &Path) {
    for field in ["kind", "name"] {
        let value = text(target, field);
        if value.is_empty() {
            causes.required(&path.child(field), "");
        } else {
            causes.wrong(&path.child(field), value, &NameRule::PathSegment.check(value, false));
        }
    }
    let version = text(target, "apiVersion");
    let core = matches!(text(target, "kind"), "ReplicationController");
    if !version.contains('/') && !core {
        causes.invalid(&path.child("apiVersion"), version, "apiVersion must specify API group");
    }
}

const METRICS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn metric_spec(causes: &mut Causes, metric: &Value, path: &Path) {
    let kind = text(metric, "type");
    let Some((_, field)) = METRICS.iter().find(|(known, _)| *known == kind) else {
        let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        return causes.push(Cause::not_supported(&path.child("type"), kind, &known));
    };
    let source = at(metric, field);
    let path = path.child(field);
    if source.is_null() {
        return causes.required(&path, "must populate information for the given metric source");
    }
    let target = at(source, "target");
    if matches!(*field, "resource" | "containerResource") {
        if text(source, "name").is_empty() {
            causes.required(&path.child("name"), "must specify a resource name");
        }
        let (percent, amount) = (at(target, "averageUtilization"), at(target, "averageValue"));
        if percent.is_null() && amount.is_null() {
            let detail = "must set either a target raw value or a target utilization";
            causes.required(&path.child("target.averageUtilization"), detail);
        } else if !percent.is_null() && !amount.is_null() {
            let detail = "may not set both a target raw value and a target utilization";
            causes.forbidden(&path.child("target.averageValue"), detail);
        }
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
        causes.wrong(&path.child("type"), kind, &name::qualified_name(kind));
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
