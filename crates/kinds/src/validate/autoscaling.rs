//! Horizontal pod autoscalers.

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use crate::access::{at, int, items, text};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name::{self, NameRule};
use setpoint_api::quantity::Quantity;

pub(super) fn autoscaler(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    // kube-apiserver reports the results of declarative validation last.
    let mut declared = Causes::default();
    let most = int(spec, "maxReplicas").unwrap_or_default();
    let most_path = path.child("maxReplicas");
    let least = int(spec, "minReplicas");
    if let Some(least) = least.filter(|least| *least < 0) {
        declared.invalid(&path.child("minReplicas"), least, NOT_NEGATIVE);
    }
    match most {
        0 => declared.required(&most_path, ""),
        most if most < 0 => declared.invalid(&most_path, most, "must be greater than or equal to 1"),
        _ => {}
    }
    if least.is_some_and(|least| most < least) {
        causes.invalid(&most_path, most, "must be greater than or equal to `minReplicas`");
    }
    let target = at(spec, "scaleTargetRef");
    reference(causes, target, &path.child("scaleTargetRef"));
    target_version(causes, target, &path.child("scaleTargetRef"));
    let metrics = items(spec, "metrics");
    for (index, one) in metrics.iter().enumerate() {
        metric(causes, one, &path.child("metrics").index(index));
    }
    let outside = metrics.iter().any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if least == Some(0) && !outside {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.forbidden(&path.child("metrics"), detail);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = at(spec, &format!("behavior.{direction}"));
        if !rules.is_null() {
            scaling_rules(causes, rules, &path.child("behavior").child(direction));
        }
    }
    causes.extend(declared.0);
}

fn reference(causes: &mut Causes, target: &Value, path: &Path) {
    for field in ["kind", "name"] {
        let value = text(target, field);
        if value.is_empty() {
            causes.required(&path.child(field), "");
        } else {
            causes.wrong(&path.child(field), value, &NameRule::PathSegment.check(value, false));
        }
    }
}

/// The object that is scaled, which only one kind of the core group can be.
fn target_version(causes: &mut Causes, target: &Value, path: &Path) {
    let version = text(target, "apiVersion");
    if !version.contains('/') && text(target, "kind") != "ReplicationController" {
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

fn metric(causes: &mut Causes, metric: &Value, path: &Path) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        causes.required(&path.child("type"), "must specify a metric source type");
    }
    let wanted = METRICS.iter().find(|(known, _)| *known == kind).map(|(_, field)| *field);
    let unknown = || {
        let known = ["ContainerResource", "External", "Object", "Pods", "Resource"];
        Cause::not_supported(&path.child("type"), kind, &known)
    };
    if wanted.is_none() {
        causes.push(unknown());
    }
    let present: Vec<&str> =
        METRICS.iter().map(|(_, field)| *field).filter(|field| !at(metric, field).is_null()).collect();
    if let Some(first) = present.first() {
        source(causes, first, at(metric, first), &path.child(first));
    }
    match wanted {
        Some(field) if at(metric, field).is_null() => {
            let detail = "must populate information for the given metric source";
            causes.required(&path.child(field), detail);
        }
        Some(_) => {}
        None => causes.push(unknown()),
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != wanted) {
            causes.forbidden(&path.child(field), "must populate the given metric source only");
        }
    }
}

fn source(causes: &mut Causes, field: &str, source: &Value, path: &Path) {
    let target = at(source, "target");
    let target_path = path.child("target");
    let has = |name: &str| !at(target, name).is_null();
    if field == "object" {
        reference(causes, at(source, "describedObject"), &path.child("describedObject"));
    }
    match field {
        "object" | "external" | "pods" => identifier(causes, at(source, "metric"), &path.child("metric")),
        _ if text(source, "name").is_empty() => {
            causes.required(&path.child("name"), "must specify a resource name");
        }
        _ => {}
    }
    if field == "containerResource" {
        match text(source, "container") {
            "" => causes.required(&path.child("container"), "must specify a container"),
            container => causes.wrong(&path.child("container"), container, &name::dns1123_label(container)),
        }
    }
    metric_target(causes, target, &target_path);
    let average = target_path.child("averageValue");
    match field {
        "pods" if !has("averageValue") => {
            causes.required(&average, "must specify a positive target averageValue");
        }
        "object" if !has("value") && !has("averageValue") => {
            causes.required(&average, "must set either a target value or averageValue");
        }
        "external" if !has("value") && !has("averageValue") => {
            causes.required(&average, "must set either a target value for metric or a per-pod target");
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            causes.forbidden(&target_path.child("value"), detail);
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            let detail = "must set either a target raw value or a target utilization";
            causes.required(&target_path.child("averageUtilization"), detail);
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            let detail = "may not set both a target raw value and a target utilization";
            causes.forbidden(&average, detail);
        }
        _ => {}
    }
}

fn identifier(causes: &mut Causes, metric: &Value, path: &Path) {
    match text(metric, "name") {
        "" => causes.required(&path.child("name"), "must specify a metric name"),
        name => causes.wrong(&path.child("name"), name, &NameRule::PathSegment.check(name, false)),
    }
}

fn metric_target(causes: &mut Causes, target: &Value, path: &Path) {
    let kind = text(target, "type");
    if kind.is_empty() {
        causes.required(&path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        causes.invalid(&path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Ok(amount) = Quantity::from_json(at(target, field))
            && amount.signum() <= 0
        {
            causes.invalid(&path.child(field), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = int(target, "averageUtilization").filter(|percent| *percent < 1) {
        causes.invalid(&path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn scaling_rules(causes: &mut Causes, rules: &Value, path: &Path) {
    let window_path = path.child("stabilizationWindowSeconds");
    match int(rules, "stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            causes.invalid(&window_path, seconds, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > 3600 => {
            causes.invalid(&window_path, seconds, "must be less than or equal to 3600");
        }
        _ => {}
    }
    if let Some(policy) = at(rules, "selectPolicy").as_str() {
        causes.one_of(&path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"]);
    }
    let policies = items(rules, "policies");
    let path = path.child("policies");
    if policies.is_empty() {
        causes.required(&path, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = path.index(index);
        causes.one_of(&path.child("type"), text(policy, "type"), &["Percent", "Pods"]);
        for field in ["value", "periodSeconds"] {
            let number = int(policy, field).unwrap_or_default();
            if number <= 0 {
                causes.invalid(&path.child(field), number, "must be greater than zero");
            } else if field == "periodSeconds" && number > 1800 {
                causes.invalid(&path.child(field), number, "must be less than or equal to 1800");
            }
        }
    }
}
