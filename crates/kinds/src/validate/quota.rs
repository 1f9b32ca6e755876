//! ResourceQuotas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Causes, NOT_NEGATIVE};
use super::{meta, pod};
use crate::access::{at, entries, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Path};
use setpoint_api::quantity::Quantity;

pub(super) fn resource_quota(causes: &mut Causes, object: &Value) {
    resources(causes, object, "spec.hard");
    scopes(causes, object);
    selector(causes, object);
}

pub(super) fn resource_quota_update(causes: &mut Causes, object: &Value, old: &Value) {
    resource_quota(causes, object);
    let named = |quota| -> BTreeSet<String> {
        items(quota, "spec.scopes").iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if named(object) != named(old) {
        causes.invalid(&Path::new("spec.scopes"), at(object, "spec.scopes"), meta::IMMUTABLE);
    }
}

pub(super) fn resource_quota_status(causes: &mut Causes, object: &Value) {
    resources(causes, object, "status.hard");
    resources(causes, object, "status.used");
}

fn resources(causes: &mut Causes, object: &Value, field: &str) {
    for (resource, amount) in entries(object, field) {
        let path = Path::new(field).key(resource);
        pod::resource_name(causes, resource, &path);
        if !resource.contains('/') && !pod::quota_resource(resource) {
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

const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn scopes(causes: &mut Causes, object: &Value) {
    let path = Path::new("spec.scopes");
    let scopes: Vec<&str> = items(object, "spec.scopes").iter().filter_map(Value::as_str).collect();
    let shown = || BadValue::from(&Value::from(scopes.clone()));
    for scope in &scopes {
        let Some(scoped) = scoped_resources(scope) else {
            causes.invalid(&path, shown(), "unsupported scope");
            continue;
        };
        if out_of_scope(object, scoped) {
            causes.invalid(&path, shown(), "unsupported scope applied to resource");
        }
    }
    if conflicting(&scopes) {
        causes.invalid(&path, shown(), "conflicting scopes");
    }
}

/// Whether the quota counts what this scope does not have.
fn out_of_scope(object: &Value, scoped: &[&str]) -> bool {
    let mut counted = entries(object, "spec.hard").map(|(resource, _)| resource.as_str());
    counted.any(|resource| pod::quota_resource(resource) && !scoped.contains(&resource))
}

fn conflicting(scopes: &[&str]) -> bool {
    PAIRS.iter().any(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

/// Returns the resources that a quota of this scope may count.
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

fn selector(causes: &mut Causes, object: &Value) {
    let selector = at(object, "spec.scopeSelector");
    let path = Path::new("spec.scopeSelector.matchExpressions");
    let mut scopes = Vec::new();
    for requirement in items(selector, "matchExpressions") {
        let scope = text(requirement, "scopeName");
        match scoped_resources(scope) {
            None => causes.invalid(&path.child("scopeName"), scope, "unsupported scope"),
            Some(scoped) if out_of_scope(object, scoped) => {
                let shown = BadValue::raw(go_struct::line("core.ScopeSelector", selector));
                causes.invalid(&path, shown, "unsupported scope applied to resource");
            }
            Some(_) => {}
        }
        requirement_of(causes, requirement, &path);
        scopes.push(scope);
    }
    if conflicting(&scopes) {
        causes.invalid(&path, at(object, "spec.scopes"), "conflicting scopes");
    }
}

/// Operator and values of one requirement.
fn requirement_of(causes: &mut Causes, requirement: &Value, path: &Path) {
    let operator = text(requirement, "operator");
    let plain = !matches!(text(requirement, "scopeName"), "PriorityClass" | "VolumeAttributesClass");
    if plain && scoped_resources(text(requirement, "scopeName")).is_some() && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
            ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
            ResourceQuotaScopeCrossNamespacePodAffinity";
        causes.invalid(&path.child("operator"), operator, detail);
    }
    let values = items(requirement, "values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            causes.required(&path.child("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            causes.invalid(&path.child("values"), at(requirement, "values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
}
