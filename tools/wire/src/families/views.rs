//! Built-in kinds in two versions: autoscalers and events. Managers own fields in the version that they wrote in.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, overlay};
use crate::scenario::{Scenario, Step};

pub fn scenarios() -> Vec<Scenario> {
    let named = [
        ("autoscalers", autoscalers()),
        ("events", events()),
        ("new-events", new_events()),
        ("changed-events", changed_events()),
        ("gone", gone()),
    ];
    named.into_iter().map(|(name, steps)| Scenario { name: format!("views-{name}"), steps }).collect()
}

fn apply(kind: &Kind, manager: &str, force: bool, fields: &Value) -> Step {
    Step::apply(format!("{}/o", kind.path), manager, force, kind.object("o", fields))
}

fn autoscaler(version: &str, base: Value) -> Kind {
    Kind {
        api_version: format!("autoscaling/{version}"),
        kind: "HorizontalPodAutoscaler".to_owned(),
        path: format!("/apis/autoscaling/{version}/namespaces/{{{{ns}}}}/horizontalpodautoscalers"),
        base,
        built_in: true,
    }
}

fn autoscalers() -> Vec<Step> {
    let target = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}});
    let spec = |fields: Value| json!({"spec": overlay(&target, &fields)});
    let (one, two) = (autoscaler("v1", json!({})), autoscaler("v2", json!({})));
    let memory = json!([{"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "Utilization", "averageUtilization": 60}}}]);
    let get = |kind: &Kind| Step::new(format!("GET {}/o", kind.path));
    vec![
        apply(&one, "m1", false, &spec(json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}))),
        get(&two),
        apply(&two, "m2", false, &spec(json!({"maxReplicas": 3, "minReplicas": 2}))),
        apply(&two, "m2", false, &spec(json!({"maxReplicas": 4}))),
        apply(&two, "m2", true, &spec(json!({"maxReplicas": 4}))),
        Step::patch(format!("{}/o?fieldManager=e1", one.path), "merge", json!({"spec": {"minReplicas": 3}})),
        Step::patch(format!("{}/o?fieldManager=e2", two.path), "merge", json!({"spec": {"metrics": memory}})),
        get(&one),
        apply(&one, "m1", false, &spec(json!({"maxReplicas": 4}))),
        apply(&two, "m1", true, &spec(json!({"maxReplicas": 5}))),
        get(&two),
        get(&one),
        Step::new(format!("GET {}", one.path)),
        Step::with(
            format!("POST {}", one.path),
            autoscaler("v1", json!({})).object("q", &spec(json!({"maxReplicas": 0}))),
        ),
    ]
}

fn events() -> Vec<Step> {
    let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "o"}, "message": "m", "reason": "R",
        "type": "Normal", "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{{ns}}"}});
    let at = "/api/v1/namespaces/{{ns}}/events";
    let other = "/apis/events.k8s.io/v1/namespaces/{{ns}}/events";
    vec![
        Step::with(format!("POST {at}?fieldManager=c"), core),
        Step::new(format!("GET {other}/o")),
        Step::patch(format!("{at}/o?fieldManager=e1"), "merge", json!({"metadata": {"labels": {"a": "1"}}})),
        Step::patch(
            format!("{other}/o?fieldManager=e2"),
            "merge",
            json!({"metadata": {"labels": {"b": "1"}}}),
        ),
        Step::patch(format!("{at}/o?fieldManager=e3"), "merge", json!({"metadata": {"labels": {"b": "2"}}})),
        Step::new(format!("GET {at}/o")),
        Step::new(format!("GET {other}/o")),
    ]
}

const CORE_EVENTS: &str = "/api/v1/namespaces/{{ns}}/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/{{ns}}/events";

/// An event of the newer group with other fields. Null fields are left out.
fn event(name: &str, fields: &Value) -> Value {
    let base = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "example.com/c", "reportingInstance": "i",
        "action": "Act", "reason": "R", "type": "Normal", "note": "n",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "{{ns}}"}});
    let mut event = overlay(&base, fields);
    event.as_object_mut().expect("an event is an object").retain(|_, value| !value.is_null());
    event
}

/// The same event as the core group has it.
fn core_event(name: &str, fields: &Value) -> Value {
    let base = json!({"apiVersion": "v1", "regarding": null, "note": null, "reportingController": null,
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{{ns}}"}, "message": "n",
        "reportingComponent": "example.com/c"});
    event(name, &overlay(&base, fields))
}

/// Errors of a new event: many in the newer group, few in the older.
fn new_events() -> Vec<Step> {
    let long = |length: usize| "x".repeat(length);
    let time = "2026-01-01T00:00:00Z";
    let strict = [
        json!({}),
        json!({"eventTime": null}),
        json!({"eventTime": null, "action": null, "reportingInstance": null}),
        json!({"reportingController": null, "reportingInstance": null, "action": null, "reason": null}),
        json!({"reportingController": "not a name", "reportingInstance": long(129), "action": long(129),
            "reason": long(129), "note": long(1025)}),
        json!({"reportingInstance": long(128), "action": long(128), "reason": long(128), "note": long(1024)}),
        json!({"type": null}),
        json!({"type": "Other", "note": null}),
        json!({"deprecatedCount": 1, "deprecatedFirstTimestamp": time, "deprecatedLastTimestamp": time}),
        json!({"deprecatedSource": {"component": "c"}}),
        json!({"deprecatedSource": {"host": "h"}, "deprecatedCount": 0}),
        json!({"deprecatedSource": {}}),
        json!({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
        json!({"series": {"count": 2}}),
        json!({"series": {}}),
        json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}),
        json!({"regarding": null}),
        json!({"regarding": {"kind": "Node", "namespace": ""}}),
        json!({"regarding": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}}),
        json!({"metadata": {"name": "Not_A_Name", "labels": {"a b": "c"}}, "action": null, "type": null}),
    ];
    let lenient = [
        json!({}),
        json!({"eventTime": null, "action": null, "reportingComponent": null, "reportingInstance": null}),
        json!({"eventTime": null, "type": "Other", "reason": null, "count": 3, "source": {"component": "c"}}),
        json!({"reportingComponent": null, "reportingInstance": null, "action": null, "reason": null}),
        json!({"reportingComponent": "not a name", "message": long(1025)}),
        json!({"type": "Other", "count": 3, "firstTimestamp": time, "series": {"count": 1}}),
        json!({"eventTime": null, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "elsewhere"}}),
        json!({"eventTime": null, "involvedObject": {"kind": "Node", "namespace": ""}}),
        json!({"involvedObject": {"kind": "Node", "namespace": ""}}),
        json!({"metadata": {"name": "Not_A_Name"}}),
        json!({"metadata": {"name": "100%", "labels": {"a b": "c"}}}),
        json!({"metadata": {"labels": {"a b": "c"}}, "action": null}),
    ];
    let strict = strict.iter().enumerate().map(|(number, fields)| {
        Step::with(format!("POST {NEW_EVENTS}"), event(&format!("new-{number}"), fields))
    });
    let lenient = lenient.iter().enumerate().map(|(number, fields)| {
        Step::with(format!("POST {CORE_EVENTS}"), core_event(&format!("core-{number}"), fields))
    });
    strict.chain(lenient).collect()
}

/// Allowed changes of an existing event: nearly none through the newer group.
fn changed_events() -> Vec<Step> {
    let change = |place: &str, fields: Value| Step::patch(format!("{place}/o"), "merge", fields);
    let observed = "2026-01-01T00:00:01.000000Z";
    let related = json!({"kind": "Node", "name": "n", "uid": "u"});
    let mut steps = vec![Step::with(format!("POST {NEW_EVENTS}"), event("o", &json!({})))];
    steps.extend(
        [
            json!({"note": "other"}),
            json!({"note": null}),
            json!({"reason": "S", "type": "Warning", "action": "Other"}),
            json!({"reportingController": "example.com/d", "reportingInstance": "j"}),
            json!({"eventTime": "2026-01-01T00:00:00.000002Z"}),
            json!({"eventTime": null}),
            json!({"regarding": {"name": "q"}}),
            json!({"related": related}),
            json!({"deprecatedCount": 2, "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": "2026-01-01T00:00:00Z"}),
            json!({"series": {"count": 1, "lastObservedTime": observed}}),
            json!({"series": {"count": 2}}),
            json!({"series": {"count": 2, "lastObservedTime": observed}}),
            json!({"series": {"count": 3}, "metadata": {"labels": {"a": "b"}}}),
            json!({"series": null}),
        ]
        .map(|fields| change(NEW_EVENTS, fields)),
    );
    steps.extend(
        [
            json!({"message": "other", "count": 4, "series": {"count": 1}}),
            json!({"type": "Other", "related": related}),
            json!({"action": ""}),
            json!({"involvedObject": {"namespace": "elsewhere"}}),
            json!({"involvedObject": {"namespace": null}}),
        ]
        .map(|fields| change(CORE_EVENTS, fields)),
    );
    // Not valid by the newer group's rules, and reported only where it changes.
    steps.push(change(NEW_EVENTS, json!({"metadata": {"labels": {"a": "c"}}})));
    steps.push(change(
        NEW_EVENTS,
        json!({"series": {"count": 1, "lastObservedTime": observed}, "related": null}),
    ));
    steps.push(Step::new(format!("GET {NEW_EVENTS}/o")));
    steps
}

/// Managers of a version that is not served.
fn gone() -> Vec<Step> {
    let kind = config_map();
    let entry = |version: &str| {
        json!({"manager": "x", "operation": "Update", "apiVersion": version,
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:base": {}}}})
    };
    let set = |entries: Value| {
        Step::patch(
            format!("{}/o?fieldManager=s", kind.path),
            "merge",
            json!({"metadata": {"managedFields": entries}}),
        )
    };
    vec![
        Step::with(format!("POST {}?fieldManager=c", kind.path), kind.least("o")),
        set(json!([entry("v9"), entry("v1")])),
        set(json!([entry("nonsense.example.com/v1")])),
        Step::patch(format!("{}/o?fieldManager=s", kind.path), "merge", json!({"data": {"more": "1"}})),
        set(json!([entry("apps/v1")])),
        apply(&kind, "m", false, &json!({"data": {"base": "2"}})),
        Step::new(format!("GET {}/o", kind.path)),
    ]
}
