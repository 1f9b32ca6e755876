//! Devices: classes of them, claims for them, slices that list them, and their taints.
//!
//! The CEL expressions that select devices are not compiled: nothing here evaluates them.

mod claim;
mod slice;
mod parts;

use serde_json::Value;

use super::check::Causes;
use super::csi::driver_name;
use crate::access::{at, items, text};
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

pub(super) use claim::{claim, claim_status, claim_update, template, template_update};
use parts::{configuration, declared_configuration, declared_taint, pool_name, selectors, taint};
pub(super) use slice::{slice, slice_update};

/// Maximum number of items in most lists of these kinds.
const MOST: usize = 32;

pub(super) fn class(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let configs = items(spec, "config");
    selectors(causes, spec, &path);
    let at_config = path.child("config");
    if configs.len() <= MOST {
        for (index, one) in configs.iter().enumerate() {
            configuration(causes, one, &at_config.index(index));
        }
    }
    for list in ["selectors", "config"] {
        let length = items(spec, list).len();
        if length > MOST {
            causes.push(Cause::too_many(&path.child(list), length, MOST));
        }
    }
    if configs.len() <= MOST {
        for (index, one) in configs.iter().enumerate() {
            declared_configuration(causes, one, &at_config.index(index));
        }
    }
    if let Some(resource) = at(spec, "extendedResourceName").as_str() {
        extended_resource(causes, resource, &path.child("extendedResourceName"));
    }
}

fn extended_resource(causes: &mut Causes, resource: &str, path: &Path) {
    let Some((domain, _)) = resource.split_once('/') else {
        let detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        return causes.invalid(path, resource, detail);
    };
    if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") {
        causes.invalid(path, resource, "must not have \"kubernetes.io\" domain");
    }
    if resource.starts_with("requests.") {
        return causes.invalid(path, resource, "must not have \"requests.\" prefix");
    }
    causes.wrong(path, resource, &name::qualified_name(&format!("requests.{resource}")));
}

pub(super) fn taint_rule(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let (selector, at_selector) = (at(spec, "deviceSelector"), path.child("deviceSelector"));
    if let Some(driver) = at(selector, "driver").as_str() {
        driver_name(causes, driver, &at_selector.child("driver"));
    }
    if let Some(pool) = at(selector, "pool").as_str() {
        pool_name(causes, pool, &at_selector.child("pool"));
    }
    if let Some(device) = at(selector, "device").as_str() {
        causes.wrong(&at_selector.child("device"), device, &name::dns1123_label(device));
    }
    taint(causes, at(spec, "taint"), &path.child("taint"));
    declared_taint(causes, at(spec, "taint"), &path.child("taint"));
}

/// A field that declarative validation keeps as it is.
fn frozen(causes: &mut Causes, new: &Value, old: &Value, field: &str, detail: &str) {
    if !semantically_equal(at(new, field), at(old, field)) {
        causes.invalid(&Path::new(field), BadValue::raw("null"), detail);
    }
}

/// The text under which two parts of a list count as one.
fn key<'a>(value: &'a Value, field: &str) -> &'a str {
    text(value, field)
}
