//! Requests and limits.

use serde_json::Value;

use crate::access::{at, entries, items};
use crate::resources::{is_extended, is_huge_pages, is_native};
use crate::validate::check::{Causes, NOT_NEGATIVE};
use setpoint_api::cause::{BadValue, Path};
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
}

/// Requests and limits of a container.
pub(super) fn requirements(causes: &mut Causes, requirements: &Value, path: &Path) {
    let limits = at(requirements, "limits");
    for (name, value) in entries(requirements, "limits") {
        let path = path.child("limits").key(name);
        container_resource(causes, name, &path);
        if let Ok(value) = Quantity::from_json(value) {
            amount(causes, name, value, &path);
        }
    }
    let request_path = path.child("requests");
    for (name, value) in entries(requirements, "requests") {
        let path_of_name = request_path.key(name);
        container_resource(causes, name, &path_of_name);
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
    let mut claims: Vec<&Value> = Vec::new();
    for (index, claim) in items(requirements, "claims").iter().enumerate() {
        if crate::access::text(claim, "name").is_empty() {
            causes.required(&path.child("claims").index(index), "");
        }
        claims.push(claim);
    }
}
