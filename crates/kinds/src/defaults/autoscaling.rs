//! Horizontal pod autoscalers.

use serde_json::{Map, Value, json};

use super::Lit::Int;
use super::Rule;

pub(super) fn rules(version: &str) -> &'static [Rule] {
    if version == "v1" { V1 } else { V2 }
}

const STATUS_V1: &[Rule] =
    &[Rule::Absent("currentReplicas", Int(0)), Rule::Absent("desiredReplicas", Int(0))];

const V1: &[Rule] =
    &[Rule::Struct("spec", &[Rule::Absent("minReplicas", Int(1))]), Rule::Struct("status", STATUS_V1)];

const TARGET: &[Rule] = &[Rule::Struct("target", &[Rule::Amount("value"), Rule::Amount("averageValue")])];

const METRIC: &[Rule] = &[
    Rule::Pointer("resource", TARGET),
    Rule::Pointer("containerResource", TARGET),
    Rule::Pointer("pods", TARGET),
    Rule::Pointer("object", TARGET),
    Rule::Pointer("external", TARGET),
];

const V2: &[Rule] = &[
    Rule::Struct(
        "spec",
        &[
            Rule::Absent("minReplicas", Int(1)),
            Rule::Call(metrics),
            Rule::List("metrics", METRIC),
            Rule::Pointer("behavior", &[Rule::Call(behavior)]),
        ],
    ),
    Rule::Struct("status", &[Rule::Absent("desiredReplicas", Int(0)), Rule::Shown("currentMetrics")]),
];

fn metrics(spec: &mut Map<String, Value>) {
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}});
        spec.insert("metrics".to_owned(), json!([cpu]));
    }
}

fn behavior(behavior: &mut Map<String, Value>) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (field, rules) in [("scaleUp", up), ("scaleDown", down)] {
        let given = behavior.entry(field).or_insert(Value::Null);
        if given.is_null() {
            *given = json!({});
        }
        if let (Value::Object(given), Value::Object(rules)) = (given, rules) {
            for (name, value) in rules {
                let known = given.entry(name).or_insert(Value::Null);
                if known.is_null() {
                    *known = value;
                }
            }
        }
    }
}
