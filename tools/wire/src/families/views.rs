//! Built-in kinds in two versions: autoscalers and events. Managers own fields in the version that they wrote in.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, overlay};
use crate::scenario::{Scenario, Step};

pub fn scenarios() -> Vec<Scenario> {
    let named = [("autoscalers", autoscalers()), ("events", events()), ("gone", gone())];
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

/// Managers of a version that nobody serves.
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
