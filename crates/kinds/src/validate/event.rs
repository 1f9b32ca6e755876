//! Events, in the words of either group.

use serde_json::Value;

use super::check::Causes;
use super::meta::{self, IMMUTABLE};
use crate::access::{at, int, text};
use crate::facts::Facts;
use crate::go_struct;
use setpoint_api::cause::{BadValue, Path};
use setpoint_api::name::{self, NameRule};

/// A new event.
pub(super) fn create(causes: &mut Causes, facts: &Facts, event: &Value) {
    let new_group = is_of_new_group(event);
    legacy(causes, event, new_group);
    if new_group {
        causes.extend(meta::create(facts, event, |name, prefix| NameRule::Subdomain.check(name, prefix)));
        causes.extend(meta::standard_finalizers(facts, event));
        new_style(causes, event);
    }
}

fn is_of_new_group(event: &Value) -> bool {
    text(event, "apiVersion").starts_with("events.k8s.io/")
}

/// Checks the rules for events of both groups.
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
pub(super) fn update(causes: &mut Causes, new: &Value, old: &Value) {
    let new_group = is_of_new_group(new);
    legacy(causes, new, new_group);
    if !new_group {
        return;
    }
    if at(new, "series") != at(old, "series") {
        series(causes, new);
    }
    let line = |kind: &str, field: &str| BadValue::raw(go_struct::line(kind, at(new, field)));
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
        if crate::strategy::semantically_equal(at(new, field), at(old, field)) {
            continue;
        }
        let value = match field {
            "regarding" => line("core.ObjectReference", field),
            "related" if !at(new, field).is_null() => line("core.ObjectReference", field),
            "deprecatedSource" => line("core.EventSource", field),
            "reason" | "note" | "type" | "action" | "reportingController" | "reportingInstance" => {
                BadValue::from(text(new, field))
            }
            _ => BadValue::from(at(new, field)),
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
    if ["component", "host"].iter().any(|part| !text(at(event, "deprecatedSource"), part).is_empty()) {
        causes.invalid(&Path::new("source"), "", "needs to be unset");
    }
}
