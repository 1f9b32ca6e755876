//! Slices: the devices of a driver on one node or on several.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::key;
use super::parts::{attribute_name, bindings, declared_taint, pool_name, taint};
use crate::access::{at, entries, int, items, text, truth};
use crate::validate::check::Causes;
use crate::validate::csi::driver_name;
use crate::validate::pod;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

const MOST_DEVICES: usize = 128;
/// The same for slices whose devices have taints, counters or lists.
const MOST_ADVANCED_DEVICES: usize = 64;
const MOST_COUNTER_SETS: usize = 8;
const MOST_TAINTS: usize = 16;
const MOST_CONSUMED: usize = 2;
const LONGEST_VALUE: usize = 64;
/// The forms of an attribute's value, in Go's order.
const FORMS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];

static SEMVER: LazyLock<Regex> = LazyLock::new(|| {
    const NUMBER: &str = r"(0|[1-9]\d*)";
    const PRE: &str = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
    const BUILD: &str = "[0-9a-zA-Z-]+";
    let form = format!(r"^{NUMBER}\.{NUMBER}\.{NUMBER}(-{PRE}(\.{PRE})*)?(\+{BUILD}(\.{BUILD})*)?$");
    Regex::new(&form).expect("a constant expression compiles")
});

pub(in crate::validate) fn slice(causes: &mut Causes, object: &Value) {
    checked(causes, object, &Value::Null);
}

pub(in crate::validate) fn slice_update(causes: &mut Causes, new: &Value, old: &Value) {
    checked(causes, new, old);
}

fn checked(causes: &mut Causes, object: &Value, old: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    driver_name(causes, text(spec, "driver"), &path.child("driver"));
    pool(causes, at(spec, "pool"), &path.child("pool"));
    if !old.is_null() {
        for field in ["spec.pool.name", "spec.driver", "spec.nodeName"] {
            causes.immutable(object, old, field, at(object, field));
        }
    }
    nodes(causes, spec, &path);
    let (shared, devices) = (at(spec, "sharedCounters"), at(spec, "devices"));
    if !shared.is_null() && !devices.is_null() {
        causes.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = items(spec, "devices");
    let at_devices = path.child("devices");
    let most = if devices.iter().any(is_advanced) { MOST_ADVANCED_DEVICES } else { MOST_DEVICES };
    if devices.len() > most {
        causes.push(Cause::too_many(&at_devices, devices.len(), most));
    } else {
        let own_nodes = truth(spec, "perDeviceNodeSelection");
        for (index, one) in devices.iter().enumerate() {
            device(causes, one, own_nodes, &at_devices.index(index));
        }
        for (index, one) in devices.iter().enumerate() {
            if devices[..index].iter().any(|earlier| key(earlier, "name") == key(one, "name")) {
                causes.push(Cause::duplicate(&at_devices.index(index), key(one, "name")));
            }
        }
        for (index, one) in devices.iter().enumerate() {
            declared_device(causes, one, &at_devices.index(index));
        }
    }
    counter_sets(causes, items(spec, "sharedCounters"), &path.child("sharedCounters"));
}

fn is_advanced(device: &Value) -> bool {
    let lists = ["ints", "bools", "strings", "versions"];
    let has_list = |(_, value): (_, &Value)| lists.iter().any(|list| !at(value, list).is_null());
    !items(device, "taints").is_empty()
        || !items(device, "consumesCounters").is_empty()
        || entries(device, "attributes").any(has_list)
}

fn pool(causes: &mut Causes, pool: &Value, path: &Path) {
    pool_name(causes, text(pool, "name"), &path.child("name"));
    let number = |field: &str| int(pool, field).unwrap_or_default();
    if number("resourceSliceCount") <= 0 {
        let path = path.child("resourceSliceCount");
        causes.invalid(&path, number("resourceSliceCount"), "must be greater than zero");
    }
    if number("generation") < 0 {
        let path = path.child("generation");
        causes.invalid(&path, number("generation"), "must be greater than or equal to zero");
    }
}

/// The nodes that reach the devices are given in one of four ways.
fn nodes(causes: &mut Causes, spec: &Value, path: &Path) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut ways = Vec::new();
    match at(spec, "nodeName").as_str() {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            causes.invalid(&path.child("nodeName"), "", detail);
        }
        Some(node) => {
            ways.push("`nodeName`");
            causes.wrong(&path.child("nodeName"), node, &name::dns1123_subdomain(node));
        }
    }
    let selector = at(spec, "nodeSelector");
    if !selector.is_null() {
        ways.push("`nodeSelector`");
        let path = path.child("nodeSelector");
        pod::node_selector(causes, selector, &path);
        let terms = items(selector, "nodeSelectorTerms");
        if terms.len() != 1 {
            let shown = BadValue::raw(Value::from(terms).to_string());
            let detail = "must have exactly one node selector term";
            causes.invalid(&path.child("nodeSelectorTerms"), shown, detail);
        }
    }
    for (field, way) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match at(spec, field).as_bool() {
            Some(true) => ways.push(way),
            Some(false) => {
                causes.invalid(&path.child(field), false, "must be either unset or set to true");
            }
            None => {}
        }
    }
    match ways.len() {
        0 => causes.required(path, ONE),
        1 => {}
        _ => {
            let detail = format!("{ONE}, but multiple fields are set");
            causes.invalid(path, format!("{{{}}}", ways.join(", ")), &detail);
        }
    }
}

fn device(causes: &mut Causes, device: &Value, own_nodes: bool, path: &Path) {
    let name = text(device, "name");
    causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
    for (name, value) in entries(device, "attributes") {
        let path = path.child("attributes");
        attribute_name(causes, name, &path);
        attribute(causes, value, &path.key(name));
    }
    for (name, value) in entries(device, "capacity") {
        let path = path.child("capacity");
        attribute_name(causes, name, &path);
        capacity(causes, value, truth(device, "allowMultipleAllocations"), &path.key(name));
    }
    let taints = items(device, "taints");
    if taints.len() > MOST_TAINTS {
        causes.push(Cause::too_many(&path.child("taints"), taints.len(), MOST_TAINTS));
    } else {
        for (index, one) in taints.iter().enumerate() {
            taint(causes, one, &path.child("taints").index(index));
        }
    }
    nodes_of_device(causes, device, own_nodes, path);
    bindings(causes, device, path);
}

fn attribute(causes: &mut Causes, attribute: &Value, path: &Path) {
    let value = |causes: &mut Causes, value: &Value, is_version: bool, path: &Path| {
        let value = value.as_str().unwrap_or_default();
        if is_version && !SEMVER.is_match(value) {
            causes.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0");
        }
        if value.len() > LONGEST_VALUE {
            causes.push(Cause::too_long(path, LONGEST_VALUE));
        }
    };
    for (field, is_version) in [("string", false), ("version", true)] {
        if !at(attribute, field).is_null() {
            value(causes, at(attribute, field), is_version, &path.child(field));
        }
    }
    for field in ["bools", "ints", "strings", "versions"] {
        let list = at(attribute, field);
        if list.as_array().is_some_and(Vec::is_empty) {
            let detail = "must not be empty if specified";
            causes.invalid(&path.child(field), BadValue::raw("[]"), detail);
        }
        for (index, one) in items(attribute, field).iter().enumerate().filter(|(_, one)| one.is_string()) {
            value(causes, one, field == "versions", &path.child(field).index(index));
        }
    }
}

fn capacity(causes: &mut Causes, capacity: &Value, is_shared: bool, path: &Path) {
    let (policy, path) = (at(capacity, "requestPolicy"), path.child("requestPolicy"));
    if policy.is_null() {
        return;
    }
    let (values, range) = (items(policy, "validValues"), at(policy, "validRange"));
    let no_default = at(policy, "default").is_null();
    if !is_shared {
        causes.forbidden(&path, "allowMultipleAllocations must be true");
    } else if !values.is_empty() && !range.is_null() {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        causes.forbidden(&path, detail);
    } else if !values.is_empty() && no_default {
        causes.required(&path.child("default"), "required when validValues is defined");
    } else if !range.is_null() && no_default {
        causes.required(&path.child("default"), "required when validRange is defined");
    } else if !range.is_null() && at(range, "min").is_null() {
        causes.required(&path.child("validRange.min"), "required when validRange is defined");
    }
}

fn nodes_of_device(causes: &mut Causes, device: &Value, own_nodes: bool, path: &Path) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                       set to true in the ResourceSlice spec";
    let given = ["nodeName", "nodeSelector", "allNodes"].iter().any(|field| !at(device, field).is_null());
    if !own_nodes {
        if given {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                          in the ResourceSlice spec";
            causes.invalid(path, BadValue::raw("null"), detail);
        }
        return;
    }
    let mut ways = Vec::new();
    match at(device, "nodeName").as_str() {
        None => {}
        Some("") => causes.invalid(&path.child("nodeName"), "", "must not be empty"),
        Some(node) => {
            ways.push("`nodeName`");
            causes.wrong(&path.child("nodeName"), node, &name::dns1123_subdomain(node));
        }
    }
    if !at(device, "nodeSelector").is_null() {
        ways.push("`nodeSelector`");
        pod::node_selector(causes, at(device, "nodeSelector"), &path.child("nodeSelector"));
    }
    match at(device, "allNodes").as_bool() {
        Some(true) => ways.push("`allNodes`"),
        Some(false) => {
            causes.invalid(&path.child("allNodes"), false, "must be either unset or set to true");
        }
        None => {}
    }
    match ways.len() {
        0 => causes.required(path, ONE),
        1 => {}
        _ => causes.invalid(path, format!("{{{}}}", ways.join(", ")), ONE),
    }
}

/// The checks of a device that come after all others.
fn declared_device(causes: &mut Causes, device: &Value, path: &Path) {
    for (name, value) in entries(device, "attributes") {
        let given: Vec<&str> = FORMS.into_iter().filter(|form| !at(value, form).is_null()).collect();
        let all = FORMS.map(|form| format!("`{form}`")).join(", ");
        let path = path.child("attributes").key(name);
        match given.len() {
            0 => causes.invalid(&path, "", &format!("must specify one of: {all}")),
            1 => {}
            _ => {
                let detail = format!("must specify exactly one of: {all}");
                causes.invalid(&path, format!("{{{}}}", given.join(", ")), &detail);
            }
        }
    }
    let (consumed, at_consumed) = (items(device, "consumesCounters"), path.child("consumesCounters"));
    if consumed.len() > MOST_CONSUMED {
        causes.push(Cause::too_many(&at_consumed, consumed.len(), MOST_CONSUMED));
    } else {
        for (index, one) in consumed.iter().enumerate() {
            let path = at_consumed.index(index);
            causes.named(&path.child("counterSet"), text(one, "counterSet"), name::dns1123_label);
            counters(causes, one, &path.child("counters"));
        }
    }
    for (index, one) in items(device, "taints").iter().take(MOST_TAINTS).enumerate() {
        declared_taint(causes, one, &path.child("taints").index(index));
    }
}

fn counters(causes: &mut Causes, holder: &Value, path: &Path) {
    if entries(holder, "counters").next().is_none() {
        return causes.required(path, "");
    }
    for (name, _) in entries(holder, "counters") {
        causes.wrong(path, name, &name::dns1123_label(name));
    }
}

/// Counters that several devices consume together.
fn counter_sets(causes: &mut Causes, sets: &[Value], path: &Path) {
    if sets.len() > MOST_COUNTER_SETS {
        return causes.push(Cause::too_many(path, sets.len(), MOST_COUNTER_SETS));
    }
    for (index, set) in sets.iter().enumerate() {
        if sets[..index].iter().any(|earlier| key(earlier, "name") == key(set, "name")) {
            causes.push(Cause::duplicate(&path.index(index), set));
        }
    }
    for (index, set) in sets.iter().enumerate() {
        causes.named(&path.index(index).child("name"), text(set, "name"), name::dns1123_label);
        counters(causes, set, &path.index(index).child("counters"));
    }
}
