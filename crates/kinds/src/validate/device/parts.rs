//! Parts that several of these kinds have.

use serde_json::Value;

use super::MOST;
use crate::access::{at, items, text};
use crate::validate::check::Causes;
use crate::validate::csi::{declared_driver_name, driver_name};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;

const MOST_PARAMETER_BYTES: usize = 10 * 1024;
const LONGEST_POOL: usize = 253;
const LONGEST_ID: usize = 32;
const LONGEST_EXPRESSION: usize = 10 * 1024;

/// Expressions that select devices.
pub(super) fn selectors(causes: &mut Causes, holder: &Value, path: &Path) {
    let all = items(holder, "selectors");
    if all.len() > MOST {
        return;
    }
    for (index, selector) in all.iter().enumerate() {
        let path = path.child("selectors").index(index).child("cel");
        if at(selector, "cel").is_null() {
            causes.required(&path, "");
        } else if text(selector, "cel.expression").len() > LONGEST_EXPRESSION {
            causes.push(Cause::too_long(&path.child("expression"), LONGEST_EXPRESSION));
        }
    }
}

/// Configuration for the driver of a device.
pub(super) fn configuration(causes: &mut Causes, config: &Value, path: &Path) {
    let (path, opaque) = (path.child("opaque"), at(config, "opaque"));
    if opaque.is_null() {
        return causes.required(&path, "");
    }
    raw_object(causes, at(opaque, "parameters"), MOST_PARAMETER_BYTES, &path.child("parameters"));
}

pub(super) fn declared_configuration(causes: &mut Causes, config: &Value, path: &Path) {
    if !at(config, "opaque").is_null() {
        let path = path.child("opaque.driver");
        declared_driver_name(causes, text(config, "opaque.driver"), &path);
    }
}

/// A JSON object of any form.
pub(super) fn raw_object(causes: &mut Causes, raw: &Value, most: usize, path: &Path) {
    match raw {
        Value::Null => causes.required(path, ""),
        raw if raw.to_string().len() > most => causes.push(Cause::too_long(path, most)),
        Value::Object(_) => {}
        _ => causes.invalid(path, "<value omitted>", "must be a valid JSON object"),
    }
}

pub(super) fn pool_name(causes: &mut Causes, pool: &str, path: &Path) {
    if pool.is_empty() {
        return causes.required(path, "");
    }
    if pool.len() > LONGEST_POOL {
        causes.push(Cause::too_long(path, LONGEST_POOL));
    }
    for part in pool.split('/') {
        causes.wrong(path, part, &name::dns1123_subdomain(part));
    }
}

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

pub(super) fn taint(causes: &mut Causes, taint: &Value, path: &Path) {
    let (key, value) = (text(taint, "key"), text(taint, "value"));
    causes.wrong(&path.child("key"), key, &name::qualified_name(key));
    causes.wrong(&path.child("value"), value, &name::label_value(value));
}

pub(super) fn declared_taint(causes: &mut Causes, taint: &Value, path: &Path) {
    causes.required_one_of(&path.child("effect"), text(taint, "effect"), &EFFECTS);
}

pub(super) fn tolerations(causes: &mut Causes, holder: &Value, path: &Path) {
    for (index, one) in items(holder, "tolerations").iter().enumerate() {
        let path = path.child("tolerations").index(index).child("value");
        let value = text(one, "value");
        match text(one, "operator") {
            "Exists" if !value.is_empty() => {
                causes.invalid(&path, value, "must be empty for operator `Exists`");
            }
            "Equal" => causes.wrong(&path, value, &name::label_value(value)),
            _ => {}
        }
    }
}

pub(super) fn declared_tolerations(causes: &mut Causes, holder: &Value, path: &Path) {
    for (index, one) in items(holder, "tolerations").iter().enumerate() {
        let path = path.child("tolerations").index(index);
        let (key, effect) = (text(one, "key"), text(one, "effect"));
        if !key.is_empty() {
            causes.wrong(&path.child("key"), key, &name::qualified_name(key));
        }
        causes.required_one_of(&path.child("operator"), text(one, "operator"), &["Equal", "Exists"]);
        if !effect.is_empty() {
            causes.one_of(&path.child("effect"), effect, &EFFECTS);
        }
    }
}

/// The name of an attribute or capacity, perhaps with the domain of its driver.
pub(super) fn attribute_name(causes: &mut Causes, whole: &str, path: &Path) {
    match whole.split('/').collect::<Vec<_>>().as_slice() {
        [id] => identifier(causes, id, path),
        [domain, id] => {
            if domain.is_empty() {
                causes.invalid(path, "", "the domain must not be empty");
            } else {
                driver_name(causes, domain, path);
            }
            if id.is_empty() {
                causes.invalid(path, "", "the name must not be empty");
            } else {
                identifier(causes, id, path);
            }
        }
        _ => {}
    }
}

/// The name of an attribute with its domain, as declarative validation words its faults.
pub(super) fn declared_attribute_name(causes: &mut Causes, whole: &str, path: &Path) {
    let Some((domain, id)) = whole.split_once('/') else {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        return causes.invalid(path, whole, detail);
    };
    if domain.is_empty() {
        causes.invalid(path, "", "prefix must not be empty");
    } else {
        causes.wrong(path, domain, &name::dns1123_subdomain(&domain.to_lowercase()));
    }
    if id.is_empty() {
        causes.invalid(path, "", "name must not be empty");
    } else {
        identifier(causes, id, path);
    }
}

fn identifier(causes: &mut Causes, id: &str, path: &Path) {
    if id.len() > LONGEST_ID {
        causes.push(Cause::too_long(path, LONGEST_ID));
    }
    causes.wrong(path, id, &name::c_identifier(id));
}

/// The conditions under which a pod is bound to its devices, and those under which it is not.
pub(super) fn bindings(causes: &mut Causes, holder: &Value, path: &Path) {
    let list = |field: &str| -> Vec<&str> { items(holder, field).iter().filter_map(Value::as_str).collect() };
    let (good, bad) = (list("bindingConditions"), list("bindingFailureConditions"));
    let (at_good, at_bad) = (path.child("bindingConditions"), path.child("bindingFailureConditions"));
    for (all, path) in [(&good, &at_good), (&bad, &at_bad)] {
        for (index, one) in all.iter().enumerate() {
            causes.wrong(&path.index(index), one, &name::qualified_name(one));
        }
    }
    for (all, path) in [(&good, &at_good), (&bad, &at_bad)] {
        for (index, one) in all.iter().enumerate() {
            if all[..index].contains(one) {
                causes.push(Cause::duplicate(&path.index(index), *one));
            }
            if path == &at_bad && good.contains(one) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                causes.invalid(&path.index(index), *one, detail);
            }
        }
    }
    let null = || setpoint_api::cause::BadValue::raw("null");
    if good.is_empty() && !bad.is_empty() {
        causes.invalid(&at_good, null(), "bindingConditions are required to use bindingFailureConditions");
    }
    if bad.is_empty() && !good.is_empty() {
        causes.invalid(&at_bad, null(), "bindingFailureConditions are required to use bindingConditions");
    }
}
