//! Events: stored in the form of the core group.

use serde_json::{Map, Value, json};

/// Names of an event's fields in core/v1 and in events.k8s.io/v1.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn renamed(value: Value, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = value else { return value };
    let renamed: Map<String, Value> =
        fields.into_iter().map(|(field, value)| (name(&field).map_or(field, str::to_owned), value)).collect();
    let mut event = Value::Object(renamed);
    event["apiVersion"] = json!(api_version);
    event
}

/// A stored event as events.k8s.io/v1 shows it.
pub(super) fn from_core(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        // Always written in the older group, left out when empty in the newer.
        for field in ["reportingComponent", "reportingInstance"] {
            if fields.get(field).is_some_and(|text| text == "") {
                fields.remove(field);
            }
        }
    }
    renamed(value, "events.k8s.io/v1", |field| {
        EVENT_FIELDS.iter().find(|(core, _)| *core == field).map(|(_, events)| *events)
    })
}

/// An event of events.k8s.io/v1 as it is stored.
pub(super) fn to_core(value: Value) -> Value {
    let mut core = renamed(value, "v1", |field| {
        EVENT_FIELDS.iter().find(|(_, events)| *events == field).map(|(core, _)| *core)
    });
    for field in ["reportingComponent", "reportingInstance"] {
        if core.get(field).is_none() {
            core[field] = json!("");
        }
    }
    core
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_both_views() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": {"name": "x"},
            "reportingComponent": "", "reportingInstance": ""});
        let events = from_core(core.clone());
        assert_eq!(events["note"], "m");
        assert_eq!(to_core(events), core);
    }
}
