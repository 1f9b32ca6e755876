//! Claims, and the templates that they are made from.

use serde_json::Value;

use super::parts::{
    configuration, declared_attribute_name, declared_configuration, declared_tolerations, selectors,
    tolerations,
};
use super::{MOST, frozen, key};
use crate::access::{at, int, items, text};
use crate::go_struct;
use crate::strategy::semantically_equal;
use crate::validate::check::Causes;
use crate::validate::meta::{self, IMMUTABLE};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

/// Maximum number of alternatives in one request.
const MOST_ALTERNATIVES: usize = 8;

pub(in crate::validate) fn claim(causes: &mut Causes, object: &Value) {
    devices(causes, at(object, "spec.devices"), &Path::new("spec.devices"));
}

pub(in crate::validate) fn claim_update(causes: &mut Causes, new: &Value, old: &Value) {
    frozen(causes, new, old, "spec", IMMUTABLE);
}

pub(in crate::validate) fn template(causes: &mut Causes, object: &Value) {
    template_metadata(causes, at(object, "spec.metadata"), &Path::new("spec.metadata"));
    devices(causes, at(object, "spec.spec.devices"), &Path::new("spec.spec.devices"));
}

/// A template has labels and annotations. All else is the claim's own.
fn template_metadata(causes: &mut Causes, metadata: &Value, path: &Path) {
    causes.extend(meta::annotations(at(metadata, "annotations"), &path.child("annotations")));
    causes.extend(meta::labels(at(metadata, "labels"), &path.child("labels")));
    // The real server derives its path of the uid from Go's field.
    for (field, shown) in [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ] {
        if !crate::access::is_empty(metadata, field) {
            causes.forbidden(&path.child(shown), "cannot be set");
        }
    }
}

pub(in crate::validate) fn template_update(causes: &mut Causes, new: &Value, old: &Value) {
    if !semantically_equal(at(new, "spec"), at(old, "spec")) {
        let shown = BadValue::raw(go_struct::line("resource.ResourceClaimTemplateSpec", at(new, "spec")));
        causes.invalid(&Path::new("spec"), shown, IMMUTABLE);
    }
}

fn devices(causes: &mut Causes, devices: &Value, path: &Path) {
    let (requests, constraints, configs) =
        (items(devices, "requests"), items(devices, "constraints"), items(devices, "config"));
    let at_item = |list: &str, index: usize| path.child(list).index(index);
    if requests.len() <= MOST {
        for (index, one) in requests.iter().enumerate() {
            request(causes, one, &at_item("requests", index));
        }
    }
    for (index, one) in constraints.iter().take(MOST).enumerate() {
        let path = at_item("constraints", index);
        references(causes, one, requests, &path.child("requests"));
        if at(one, "matchAttribute").is_null() && at(one, "distinctAttribute").is_null() {
            let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            causes.required(&path, detail);
        }
    }
    for (index, one) in configs.iter().take(MOST).enumerate() {
        let path = at_item("config", index);
        references(causes, one, requests, &path.child("requests"));
        configuration(causes, one, &path);
    }
    declared(causes, devices, path);
}

fn request(causes: &mut Causes, request: &Value, path: &Path) {
    let name = text(request, "name");
    causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
    let (exactly, alternatives) = (at(request, "exactly"), items(request, "firstAvailable"));
    match (exactly.is_null(), alternatives.is_empty()) {
        (true, true) => {
            causes.required(path, "exactly one of `exactly` or `firstAvailable` is required");
        }
        (false, false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            causes.invalid(path, BadValue::raw("null"), detail);
        }
        (false, true) => {
            let path = path.child("exactly");
            causes.named(
                &path.child("deviceClassName"),
                text(exactly, "deviceClassName"),
                name::dns1123_subdomain,
            );
            wanted(causes, exactly, &path);
        }
        (true, false) if alternatives.len() <= MOST_ALTERNATIVES => {
            for (index, one) in alternatives.iter().enumerate() {
                let path = path.child("firstAvailable").index(index);
                let name = text(one, "name");
                causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
                wanted(causes, one, &path);
            }
        }
        (true, false) => {}
    }
}

/// How many devices of which kind are wanted.
fn wanted(causes: &mut Causes, one: &Value, path: &Path) {
    selectors(causes, one, path);
    let count = int(one, "count").unwrap_or_default();
    match text(one, "allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            causes.invalid(&path.child("count"), count, detail);
        }
        "ExactCount" if count <= 0 => {
            causes.invalid(&path.child("count"), count, "must be greater than zero");
        }
        _ => {}
    }
    tolerations(causes, one, path);
}

/// Names of requests, or of a request and one of its alternatives.
fn references(causes: &mut Causes, holder: &Value, requests: &[Value], path: &Path) {
    const UNKNOWN: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let names = items(holder, "requests");
    if names.len() > MOST {
        return;
    }
    for (index, name) in names.iter().filter_map(Value::as_str).enumerate() {
        let path = path.index(index);
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 {
            causes.invalid(&path, name, UNKNOWN);
            continue;
        }
        for part in &parts {
            causes.wrong(&path, part, &name::dns1123_label(part));
        }
        let request = requests.iter().rfind(|request| text(request, "name") == parts[0]);
        let known = request.is_some_and(|request| {
            parts.get(1).is_none_or(|alternative| {
                items(request, "firstAvailable").iter().any(|one| text(one, "name") == *alternative)
            })
        });
        if !known {
            causes.invalid(&path, name, UNKNOWN);
        }
    }
}

/// The checks that come after all others.
fn declared(causes: &mut Causes, devices: &Value, path: &Path) {
    let at_list = |list: &str| path.child(list);
    let fits = |causes: &mut Causes, list: &[Value], most: usize, path: &Path| {
        if list.len() > most {
            causes.push(Cause::too_many(path, list.len(), most));
        }
        list.len() <= most
    };
    let requests = items(devices, "requests");
    if fits(causes, requests, MOST, &at_list("requests")) {
        doubled(causes, requests, &at_list("requests"));
        for (index, one) in requests.iter().enumerate() {
            declared_request(causes, one, &at_list("requests").index(index));
        }
    }
    let constraints = items(devices, "constraints");
    if fits(causes, constraints, MOST, &at_list("constraints")) {
        for (index, one) in constraints.iter().enumerate() {
            let path = at_list("constraints").index(index);
            declared_references(causes, one, &path.child("requests"));
            for field in ["matchAttribute", "distinctAttribute"] {
                if let Some(name) = at(one, field).as_str() {
                    declared_attribute_name(causes, name, &path.child(field));
                }
            }
        }
    }
    let configs = items(devices, "config");
    if fits(causes, configs, MOST, &at_list("config")) {
        for (index, one) in configs.iter().enumerate() {
            let path = at_list("config").index(index);
            declared_references(causes, one, &path.child("requests"));
            declared_configuration(causes, one, &path);
        }
    }
}

fn declared_references(causes: &mut Causes, holder: &Value, path: &Path) {
    let names = items(holder, "requests");
    if names.len() > MOST {
        return causes.push(Cause::too_many(path, names.len(), MOST));
    }
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            causes.push(Cause::duplicate(&path.index(index), name));
        }
    }
}

fn declared_request(causes: &mut Causes, request: &Value, path: &Path) {
    let exactly = at(request, "exactly");
    if !exactly.is_null() {
        declared_wanted(causes, exactly, &path.child("exactly"));
    }
    let alternatives = items(request, "firstAvailable");
    let path = path.child("firstAvailable");
    if alternatives.len() > MOST_ALTERNATIVES {
        return causes.push(Cause::too_many(&path, alternatives.len(), MOST_ALTERNATIVES));
    }
    doubled(causes, alternatives, &path);
    for (index, one) in alternatives.iter().enumerate() {
        let path = path.index(index);
        let at_class = path.child("deviceClassName");
        causes.named(&at_class, text(one, "deviceClassName"), name::dns1123_subdomain);
        declared_wanted(causes, one, &path);
    }
}

fn declared_wanted(causes: &mut Causes, one: &Value, path: &Path) {
    let selectors = items(one, "selectors").len();
    if selectors > MOST {
        causes.push(Cause::too_many(&path.child("selectors"), selectors, MOST));
    }
    let mode = text(one, "allocationMode");
    causes.one_of(&path.child("allocationMode"), mode, &["All", "ExactCount"]);
    declared_tolerations(causes, one, path);
}

fn doubled(causes: &mut Causes, list: &[Value], path: &Path) {
    for (index, one) in list.iter().enumerate() {
        if list[..index].iter().any(|earlier| key(earlier, "name") == key(one, "name")) {
            causes.push(Cause::duplicate(&path.index(index), one));
        }
    }
}

/// The status, which allocates devices to the claim and reserves it for pods.
pub(in crate::validate) fn claim_status(causes: &mut Causes, new: &Value, old: &Value) {
    let (path, status) = (Path::new("status"), at(new, "status"));
    let reserved = items(status, "reservedFor");
    let at_reserved = path.child("reservedFor");
    for (index, one) in reserved.iter().enumerate() {
        for field in ["resource", "name", "uid"] {
            if text(one, field).is_empty() {
                causes.required(&at_reserved.index(index).child(field), "");
            }
        }
    }
    let (is, was) = (at(status, "allocation"), at(old, "status.allocation"));
    if !reserved.is_empty() && is.is_null() {
        causes.forbidden(&at_reserved, "may not be specified when `allocated` is not set");
    } else if !reserved.is_empty() && !at(new, "metadata.deletionTimestamp").is_null() {
        let before = items(old, "status.reservedFor");
        if reserved.iter().any(|one| !before.contains(one)) {
            let detail =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            causes.forbidden(&at_reserved, detail);
        }
    }
    if !is.is_null() && was.is_null() {
        allocation(causes, new, is, &path.child("allocation.devices"));
    } else if !is.is_null() {
        frozen(causes, new, old, "status.allocation", "field cannot be modified once set");
    }
    for (index, one) in reserved.iter().enumerate() {
        if reserved[..index].iter().any(|earlier| text(earlier, "uid") == text(one, "uid")) {
            causes.push(Cause::duplicate(&at_reserved.index(index), one));
        }
    }
}

fn allocation(causes: &mut Causes, claim: &Value, allocation: &Value, path: &Path) {
    let requests = items(claim, "spec.devices.requests");
    for (index, result) in items(allocation, "devices.results").iter().enumerate() {
        let path = path.child("results").index(index);
        let of_one = serde_json::json!({ "requests": [text(result, "request")] });
        let before = causes.0.len();
        references(causes, &of_one, requests, &path.child("request"));
        for cause in &mut causes.0[before..] {
            // One name, not a list of names.
            cause.field = cause.field.trim_end_matches("[0]").to_owned();
        }
        let device = text(result, "device");
        causes.wrong(&path.child("device"), device, &name::dns1123_label(device));
        super::parts::bindings(causes, result, &path);
        tolerations(causes, result, &path);
        super::driver_name(causes, text(result, "driver"), &path.child("driver"));
        super::pool_name(causes, text(result, "pool"), &path.child("pool"));
    }
    for (index, config) in items(allocation, "devices.config").iter().enumerate() {
        let path = path.child("config").index(index);
        references(causes, config, requests, &path.child("requests"));
        configuration(causes, config, &path);
        causes.required_one_of(&path.child("source"), text(config, "source"), &["FromClaim", "FromClass"]);
    }
}
