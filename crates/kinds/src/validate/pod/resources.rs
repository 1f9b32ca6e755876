//! Requests and limits.

use std::collections::BTreeSet;

use serde_json::Value;

use super::claims;
use crate::access::{at, entries, items, text};
use crate::resources::{Side, is_extended, is_huge_pages, is_native, of_spec};
use crate::validate::check::{Causes, NOT_NEGATIVE};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;
use setpoint_api::quantity::Quantity;

/// Resources that every cluster has.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources counted in whole pieces.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(in crate::validate) fn standard_resource(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// Resources that a quota may name without a prefix.
pub(in crate::validate) fn quota_resource(name: &str) -> bool {
    standard_resource(name) && name != "storage"
}

/// Whether more of a resource may be used than is requested.
pub(in crate::validate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether amounts of a resource must be whole.
pub(in crate::validate) fn integer_resource(name: &str) -> bool {
    WHOLE.contains(&name) || is_extended(name)
}

/// A resource by its name: whether there is such a thing.
pub(in crate::validate) fn resource_name(causes: &mut Causes, resource: &str, path: &Path) -> bool {
    let wrong = name::qualified_name(resource);
    causes.wrong(path, resource, &wrong);
    if wrong.is_empty() && !resource.contains('/') && !standard_resource(resource) {
        causes.invalid(path, resource, "must be a standard resource type or fully qualified");
    }
    wrong.is_empty()
}

pub(in crate::validate) fn container_resource(causes: &mut Causes, resource: &str, path: &Path) {
    resource_name(causes, resource, path);
    if !resource.contains('/') {
        if !matches!(resource, "cpu" | "memory" | "ephemeral-storage") && !is_huge_pages(resource) {
            causes.invalid(path, resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        causes.invalid(path, resource, "doesn't follow extended resource name standard");
    }
}

fn amount(causes: &mut Causes, resource: &str, amount: Quantity, path: &Path) {
    let shown = || BadValue::from(amount.to_string());
    if amount.signum() < 0 {
        causes.invalid(path, shown(), NOT_NEGATIVE);
    }
    if integer_resource(resource) && amount.milli_value() % 1000 != 0 {
        causes.invalid(path, shown(), "must be an integer");
    }
    if let Some(size) = resource.strip_prefix("hugepages-")
        && let Ok(page) = Quantity::from_json(&size.into())
        && page.signum() > 0
        && amount.value() % page.value() != 0
    {
        let detail = format!("{amount} is not positive integer multiple of {page}");
        causes.invalid(path, shown(), &detail);
    }
}

/// Requests, limits and claims of a container; `claims` are those of its pod.
pub(super) fn of_container(causes: &mut Causes, requirements: &Value, claims: &BTreeSet<&str>, path: &Path) {
    self::requirements(causes, requirements, path);
    claims::used(causes, items(requirements, "claims"), claims, &path.child("claims"));
}

/// Requests and limits of a pod as a whole, beside those of its containers.
pub(super) fn of_pod(causes: &mut Causes, spec: &Value, claims: &BTreeSet<&str>, path: &Path) {
    let own = at(spec, "resources");
    let path = path.child("resources");
    if own.is_null() {
        return;
    }
    if text(spec, "os.name") == "windows" {
        return causes.forbidden(&path, "may not be set for a windows pod");
    }
    if !at(own, "claims").is_null() {
        causes.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    amounts(causes, own, pod_resource, &path);
    claims::used(causes, items(own, "claims"), claims, &path.child("claims"));
    consistent(causes, spec, &path);
}

fn pod_resource(causes: &mut Causes, resource: &str, path: &Path) {
    let before = causes.0.len();
    resource_name(causes, resource, path);
    let supported = matches!(resource, "cpu" | "memory") || is_huge_pages(resource);
    if causes.0.len() == before && !supported {
        causes.push(Cause::not_supported(path, resource, &["cpu", "memory"]));
    }
}

/// A pod as a whole gets what its containers need, and none of them gets more.
fn consistent(causes: &mut Causes, spec: &Value, path: &Path) {
    let own = at(spec, "resources");
    let mut alone = serde_json::json!({ "spec": spec });
    crate::access::remove(&mut alone, "spec.resources");
    let amount = |list: &str, name: &str| Quantity::from_json(at(own, list).get(name)?).ok();
    let sums = [(Side::Requests, "requests"), (Side::Limits, "limits")];
    for (side, list) in sums {
        for (name, sum) in of_spec(&alone, side) {
            let counts = side == Side::Requests || is_huge_pages(&name);
            if let Some(whole) = amount(list, &name).filter(|whole| counts && sum > *whole) {
                let detail = format!("must be greater than or equal to aggregate container {list} of {sum}");
                causes.invalid(&path.child(list).key(&name), whole.to_string(), &detail);
            }
        }
    }
    for (index, container) in items(spec, "containers").iter().enumerate() {
        for (name, limit) in entries(container, "resources.limits") {
            let Ok(limit) = Quantity::from_json(limit) else { continue };
            if let Some(whole) = amount("limits", name).filter(|whole| limit > *whole) {
                let path = path.child("containers").index(index).key(name).child("limits");
                let detail = format!("must be less than or equal to pod limits of {whole}");
                causes.invalid(&path, limit.to_string(), &detail);
            }
        }
    }
}

/// Requests and limits, of which a container could have each.
pub(in crate::validate) fn requirements(causes: &mut Causes, requirements: &Value, path: &Path) {
    amounts(causes, requirements, container_resource, path);
}

/// Requests and limits; `named` checks the name of a resource.
fn amounts(causes: &mut Causes, requirements: &Value, named: fn(&mut Causes, &str, &Path), path: &Path) {
    let limits = at(requirements, "limits");
    for (name, value) in entries(requirements, "limits") {
        let path = path.child("limits").key(name);
        named(causes, name, &path);
        if let Ok(value) = Quantity::from_json(value) {
            amount(causes, name, value, &path);
        }
    }
    let request_path = path.child("requests");
    for (name, value) in entries(requirements, "requests") {
        let path_of_name = request_path.key(name);
        named(causes, name, &path_of_name);
        let Ok(request) = Quantity::from_json(value) else { continue };
        amount(causes, name, request, &path_of_name);
        let overcommit = may_overcommit(name);
        match limits.get(name).map(Quantity::from_json) {
            Some(Ok(limit)) if request != limit && !overcommit => {
                let detail = format!("must be equal to {name} limit of {limit}");
                causes.invalid(&request_path, request.to_string(), &detail);
            }
            Some(Ok(limit)) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                causes.invalid(&request_path, request.to_string(), &detail);
            }
            None if !overcommit => {
                let detail = "Limit must be set for non overcommitable resources";
                causes.required(&path.child("limits"), detail);
            }
            _ => {}
        }
    }
    let names = || ["limits", "requests"].into_iter().flat_map(|list| entries(requirements, list));
    let computes = names().any(|(name, _)| matches!(&**name, "cpu" | "memory"));
    if !computes && names().any(|(name, _)| is_huge_pages(name)) {
        causes.forbidden(path, "HugePages require cpu or memory");
    }
}
