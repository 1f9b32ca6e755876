//! Nodes.

use serde_json::Value;

use super::check::{Causes, parse_cidr};
use super::pod;
use crate::access::{at, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

pub(super) fn node(causes: &mut Causes, object: &Value) {
    taints(causes, object);
    declared_features(causes, object);
    for (index, cidr) in items(object, "spec.podCIDRs").iter().filter_map(Value::as_str).enumerate() {
        causes.cidr(&Path::new("spec.podCIDRs").index(index), cidr);
    }
    let families: Vec<bool> = items(object, "spec.podCIDRs")
        .iter()
        .filter_map(|cidr| parse_cidr(cidr.as_str()?))
        .map(|(ip, _)| ip.is_ipv4())
        .collect();
    if families.len() > 2 || matches!(families.as_slice(), [one, other] if one == other) {
        let shown = BadValue::raw(at(object, "spec.podCIDRs").to_string());
        let detail = "may specify no more than one CIDR for each IP family";
        causes.invalid(&Path::new("spec.podCIDRs"), shown, detail);
    }
}

fn declared_features(causes: &mut Causes, node: &Value) {
    let features: Vec<&str> =
        items(node, "status.declaredFeatures").iter().filter_map(Value::as_str).collect();
    for (index, feature) in features.iter().enumerate() {
        let path = Path::new("status.declaredFeatures").index(index);
        if index > 0 && features[index - 1] == *feature {
            causes.push(Cause::duplicate(&path, *feature));
        } else if index > 0 && features[index - 1] > *feature {
            causes.invalid(&path, *feature, "list must be sorted alphabetically");
        }
        let alphanumeric =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !feature.starts_with(|first: char| first.is_ascii_uppercase())
            || !feature.split('/').all(alphanumeric)
        {
            let detail = format!(
                "invalid feature name \"{feature}\": must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and \
                 slashes"
            );
            causes.invalid(&path, *feature, &detail);
        }
    }
}

fn taints(causes: &mut Causes, node: &Value) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in items(node, "spec.taints").iter().enumerate() {
        // The real server's path for taints is under metadata.
        let path = Path::new("metadata.taints").index(index);
        let (key, value) = (text(taint, "key"), text(taint, "value"));
        causes.wrong(&path.child("key"), key, &name::qualified_name(key));
        let wrong = name::label_value(value);
        if !wrong.is_empty() {
            causes.invalid(&path.child("value"), value, &wrong.join(";"));
        }
        pod::effect(causes, text(taint, "effect"), &path.child("effect"));
        let pair = (key, text(taint, "effect"));
        if seen.contains(&pair) {
            let mut duplicate = Cause::duplicate(&path, BadValue::raw(go_struct::line("core.Taint", taint)));
            duplicate.message.push_str(": taints must be unique by key and effect pair");
            causes.push(duplicate);
        }
        seen.push(pair);
    }
}

pub(super) fn node_update(causes: &mut Causes, new: &Value, old: &Value) {
    let (was, is) = (items(old, "spec.podCIDRs"), items(new, "spec.podCIDRs"));
    if !was.is_empty() && was != is {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        causes.forbidden(&Path::new("spec.podCIDRs"), detail);
    }
    let mut addresses: Vec<&Value> = Vec::new();
    for (index, address) in items(new, "status.addresses").iter().enumerate() {
        if addresses.contains(&address) {
            let path = Path::new("status.addresses").index(index);
            let shown =
                format!("{{\"Type\":{},\"Address\":{}}}", at(address, "type"), at(address, "address"));
            causes.push(Cause::duplicate(&path, BadValue::raw(shown)));
        }
        addresses.push(address);
    }
    taints(causes, new);
    let (was, is) = (text(old, "spec.providerID"), text(new, "spec.providerID"));
    if !was.is_empty() && was != is {
        let detail = if is.is_empty() {
            "field cannot be cleared once set"
        } else {
            "field cannot be modified once set"
        };
        causes.invalid(&Path::new("spec.providerID"), BadValue::raw("null"), detail);
    }
}
