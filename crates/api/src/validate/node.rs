//! Nodes and events.

use serde_json::Value;

use super::check::{Causes, parse_cidr};
use super::meta::IMMUTABLE;
use super::pod;
use crate::access::{at, int, items, text};
use crate::cause::{Cause, Path, Shown};
use crate::name;
use crate::shown;

pub(super) fn node(causes: &mut Causes, object: &Value) {
    taints(causes, object);
    for (index, cidr) in items(object, "spec.podCIDRs").iter().filter_map(Value::as_str).enumerate() {
        causes.cidr(&Path::new("spec.podCIDRs").index(index), cidr);
    }
    let families: Vec<bool> = items(object, "spec.podCIDRs")
        .iter()
        .filter_map(|cidr| parse_cidr(cidr.as_str()?))
        .map(|(ip, _)| ip.is_ipv4())
        .collect();
    if families.len() > 2 || matches!(families.as_slice(), [one, other] if one == other) {
        let shown = Shown::raw(at(object, "spec.podCIDRs").to_string());
        let detail = "may specify no more than one CIDR for each IP family";
        causes.invalid(&Path::new("spec.podCIDRs"), shown, detail);
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
            let mut duplicate = Cause::duplicate(&path, Shown::raw(shown::line("core.Taint", taint)));
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
            causes.push(Cause::duplicate(&path, Shown::raw(shown)));
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
        causes.invalid(&Path::new("spec.providerID"), Shown::raw("null"), detail);
    }
}

/// An event in either group's words.
pub(super) fn event(causes: &mut Causes, event: &Value) {
    let new_group = text(event, "apiVersion").starts_with("events.k8s.io/");
    legacy(causes, event, new_group);
    if new_group {
        new_style(causes, event);
    }
}

/// What holds for events of both groups.
fn legacy(causes: &mut Causes, event: &Value, new_group: bool) {
    let namespace = text(event, "metadata.namespace");
    let about = if new_group { "regarding" } else { "involvedObject" };
    let target = text(at(event, about), "namespace");
    let path = Path::new("involvedObject.namespace");
    let mismatch = "does not match event.namespace";
    let timed = !at(event, "eventTime").is_null();
    if !timed {
        let fits = if target.is_empty() { matches!(namespace, "" | "default") } else { target == namespace };
        if !fits {
            causes.invalid(&path, target, mismatch);
        }
    } else {
        if target.is_empty() && !matches!(namespace, "default" | "kube-system") {
            causes.invalid(&path, target, mismatch);
        }
        reported(causes, event, new_group);
    }
}

/// A changed event: in the newer group little may change.
pub(super) fn event_update(causes: &mut Causes, new: &Value, old: &Value) {
    let checked = |causes: &mut Causes| {
        let new_group = text(new, "apiVersion").starts_with("events.k8s.io/");
        legacy(causes, new, new_group);
        new_group
    };
    if !checked(causes) {
        return;
    }
    if at(new, "series") != at(old, "series") {
        series(causes, new);
    }
    let reference =
        |event: &Value, field: &str| Shown::raw(shown::line("core.ObjectReference", at(event, field)));
    for (field, stored) in [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("deprecatedSource", "source"),
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        if crate::prepare::semantically_equal(at(new, field), at(old, field)) {
            continue;
        }
        let value = match field {
            "regarding" => reference(new, field),
            "related" if !at(new, field).is_null() => reference(new, field),
            _ if at(new, field).is_null() && at(old, field).is_string() => Shown::from(""),
            _ => Shown::from(at(new, field)),
        };
        causes.invalid(&Path::new(stored), value, IMMUTABLE);
    }
}

fn reported(causes: &mut Causes, event: &Value, new_group: bool) {
    let field = if new_group { "reportingController" } else { "reportingComponent" };
    let controller = text(event, field);
    if controller.is_empty() {
        causes.required(&Path::new(field), "");
    }
    causes.wrong(&Path::new(field), controller, &name::qualified_name(controller));
    for (field, most) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let value = text(event, field);
        if value.is_empty() {
            causes.required(&Path::new(field), "");
        }
        if value.len() > most {
            causes.invalid(&Path::new(field), "", &format!("can have at most {most} characters"));
        }
    }
    let note = if new_group { "note" } else { "message" };
    if text(event, note).len() > 1024 {
        causes.invalid(&Path::new("message"), "", "can have at most 1024 characters");
    }
}

fn series(causes: &mut Causes, event: &Value) {
    if !at(event, "series").is_null() {
        if int(event, "series.count").unwrap_or_default() < 2 {
            causes.invalid(&Path::new("series.count"), "", "should be at least 2");
        }
        if at(event, "series.lastObservedTime").is_null() {
            causes.required(&Path::new("series.lastObservedTime"), "");
        }
    }
}

fn new_style(causes: &mut Causes, event: &Value) {
    series(causes, event);
    if at(event, "eventTime").is_null() {
        causes.required(&Path::new("eventTime"), "");
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        causes.invalid(&Path::new("type"), "", &format!("has invalid value: {kind}"));
    }
    for (field, stored) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ] {
        let value = at(event, field);
        if !value.is_null() && value != 0 {
            causes.invalid(&Path::new(stored), "", "needs to be unset");
        }
    }
}
