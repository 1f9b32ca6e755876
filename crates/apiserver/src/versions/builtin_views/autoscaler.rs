//! HorizontalPodAutoscaler: stored as autoscaling/v2. Annotations carry the fields that autoscaling/v1 lacks.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CARRIED: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// A place in autoscaling/v2, and the field of autoscaling/v1 with the same meaning.
type Place = (&'static str, &'static str);

/// The places of the parts of each kind of metric.
const SPEC: [(&str, &[Place]); 5] = [
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    ("resource", RESOURCE),
    ("containerResource", RESOURCE),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
];

const RESOURCE: &[Place] = &[
    ("/name", "name"),
    ("/container", "container"),
    ("/target/averageUtilization", "targetAverageUtilization"),
    ("/target/averageValue", "targetAverageValue"),
];

const STATUS: [(&str, &[Place]); 5] = [
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    ("resource", RESOURCE_STATUS),
    ("containerResource", RESOURCE_STATUS),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
];

const RESOURCE_STATUS: &[Place] = &[
    ("/name", "name"),
    ("/container", "container"),
    ("/current/averageUtilization", "currentAverageUtilization"),
    ("/current/averageValue", "currentAverageValue"),
];

/// Values that autoscaling/v1 always writes, and autoscaling/v2 omits when the user did not set them.
const ALWAYS: [(&str, &str); 3] =
    [("object", "targetValue"), ("object", "currentValue"), ("external", "currentValue")];

/// A stored autoscaler as autoscaling/v1.
pub(super) fn to_v1(mut stored: Value) -> Value {
    let mut carried: Vec<(&str, String)> = Vec::new();
    let mut percent = None;
    let metrics = take(&mut stored, "spec", "metrics");
    let others: Vec<Value> = list(metrics)
        .into_iter()
        .filter_map(|metric| match cpu_percent(&metric, "/resource/target/averageUtilization") {
            Some(own) => {
                percent.get_or_insert(own);
                None
            }
            None => Some(older(&metric, &SPEC)),
        })
        .collect();
    if !others.is_empty() {
        carried.push((METRICS, written(&Value::Array(others))));
    }
    if let Some(percent) = percent {
        stored["spec"]["targetCPUUtilizationPercentage"] = percent;
    }
    let current = list(take(&mut stored, "status", "currentMetrics"));
    for metric in &current {
        if let Some(percent) = cpu_percent(metric, "/resource/current/averageUtilization") {
            stored["status"]["currentCPUUtilizationPercentage"] = percent;
        }
    }
    if !current.is_empty() {
        let shown = current.iter().map(|metric| older(metric, &STATUS)).collect();
        carried.push((CURRENT_METRICS, written(&Value::Array(shown))));
    }
    if let Some(behavior) = take(&mut stored, "spec", "behavior").filter(|behavior| !behavior.is_null()) {
        carried.push((BEHAVIOR, written(&capitalised(behavior))));
    }
    let conditions = list(take(&mut stored, "status", "conditions"));
    if !conditions.is_empty() {
        carried.push((CONDITIONS, written(&Value::Array(conditions))));
    }
    drop_carried(&mut stored);
    for (name, text) in carried {
        stored["metadata"]["annotations"][name] = Value::String(text);
    }
    if let Some(Value::Object(status)) = stored.get_mut("status") {
        status.entry("currentReplicas").or_insert(json!(0));
        status.entry("desiredReplicas").or_insert(json!(0));
    }
    stored["apiVersion"] = json!("autoscaling/v1");
    stored
}

/// An autoscaler of autoscaling/v1 in its stored form.
pub(super) fn to_v2(mut shown: Value) -> Value {
    let annotation = |name: &str| -> Option<Value> {
        let text = shown.pointer("/metadata/annotations")?.get(name)?.as_str()?;
        serde_json::from_str(text).ok()
    };
    let (others, behavior) = (annotation(METRICS), annotation(BEHAVIOR));
    let (current, conditions) = (annotation(CURRENT_METRICS), annotation(CONDITIONS));
    let mut metrics: Vec<Value> = list(others).iter().map(|metric| typed(newer(metric, &SPEC))).collect();
    match take(&mut shown, "spec", "targetCPUUtilizationPercentage") {
        Some(percent) if !percent.is_null() => metrics.push(cpu_metric(percent)),
        _ if metrics.is_empty() => metrics.push(cpu_metric(json!(80))),
        _ => {}
    }
    if shown.get("spec").is_some_and(Value::is_object) {
        shown["spec"]["metrics"] = Value::Array(metrics);
        if let Some(behavior) = behavior.map(lowered).filter(|behavior| behavior != &json!({})) {
            shown["spec"]["behavior"] = behavior;
        }
    }
    let percent = take(&mut shown, "status", "currentCPUUtilizationPercentage");
    if shown.get("status").is_some_and(Value::is_object) {
        let from_percent = percent.filter(|percent| !percent.is_null()).map(|percent| {
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})
        });
        let current = match current {
            Some(current) => list(Some(current)).iter().map(|metric| newer(metric, &STATUS)).collect(),
            None => from_percent.into_iter().collect::<Vec<Value>>(),
        };
        shown["status"]["currentMetrics"] =
            if current.is_empty() { Value::Null } else { Value::Array(current) };
        if let Some(conditions) = conditions {
            shown["status"]["conditions"] = conditions;
        }
    }
    drop_carried(&mut shown);
    shown
}

fn cpu_metric(percent: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

/// The percentage of a metric for which autoscaling/v1 has a field.
fn cpu_percent(metric: &Value, place: &str) -> Option<Value> {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    metric.pointer(place).filter(|percent| is_cpu && !percent.is_null()).cloned()
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

fn list(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A metric in the form of autoscaling/v1.
fn older(metric: &Value, places: &[(&str, &[Place])]) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (source, places) in places {
        let Some(given) = metric.get(*source).filter(|given| given.is_object()) else { continue };
        let mut parts = Map::new();
        for (place, name) in *places {
            if let Some(value) = given.pointer(place).filter(|value| !value.is_null()) {
                parts.insert((*name).to_owned(), value.clone());
            } else if ALWAYS.contains(&(source, name)) {
                parts.insert((*name).to_owned(), json!("0"));
            }
        }
        out[*source] = Value::Object(parts);
    }
    out
}

/// A metric in the form of autoscaling/v2.
fn newer(metric: &Value, places: &[(&str, &[Place])]) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (source, places) in places {
        let Some(given) = metric.get(*source).filter(|given| given.is_object()) else { continue };
        let mut parts = json!({});
        let average = given.get("averageValue").is_some_and(|value| !value.is_null());
        for (place, name) in *places {
            let Some(value) = given.get(*name).filter(|value| !value.is_null()) else { continue };
            // The first version cannot leave this field out, and the second refuses a zero.
            if *name == "targetValue" && *source == "object" && average && value == "0" {
                continue;
            }
            let mut at = &mut parts;
            for part in place.split('/').skip(1) {
                at = &mut at[part];
            }
            *at = value.clone();
        }
        out[*source] = parts;
    }
    out
}

/// Sets the type of each target: the value that the metric aims at.
fn typed(mut metric: Value) -> Value {
    for (source, _) in SPEC {
        let Some(Value::Object(target)) = metric.get_mut(source).and_then(|given| given.get_mut("target"))
        else {
            continue;
        };
        let kind = match source {
            "resource" | "containerResource" if target.contains_key("averageUtilization") => "Utilization",
            "object" if !target.contains_key("averageValue") => "Value",
            "external" if target.contains_key("value") => "Value",
            _ => "AverageValue",
        };
        target.insert("type".to_owned(), json!(kind));
    }
    metric
}

fn drop_carried(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        let before = annotations.len();
        annotations.retain(|name, _| !CARRIED.contains(&name.as_str()));
        if annotations.is_empty() && before > 0 {
            metadata.remove("annotations");
        }
    }
}

/// Renames fields as Go's own struct has them: the annotation holds that form.
fn capitalised(value: Value) -> Value {
    renamed(value, |name| format!("{}{}", name[..1].to_uppercase(), &name[1..]))
}

fn lowered(value: Value) -> Value {
    renamed(value, |name| format!("{}{}", name[..1].to_lowercase(), &name[1..]))
}

fn renamed(value: Value, name: fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => {
            let known = fields.into_iter().filter(|(field, value)| {
                !value.is_null() && field.chars().next().is_some_and(|first| first.is_ascii())
            });
            Value::Object(known.map(|(field, value)| (name(&field), renamed(value, name))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| renamed(item, name)).collect()),
        other => other,
    }
}

/// The order in which Go writes the fields of these types.
const ORDER: [&str; 38] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "kind",
    "name",
    "apiVersion",
    "metricName",
    "metricSelector",
    "targetValue",
    "currentValue",
    "targetAverageUtilization",
    "targetAverageValue",
    "currentAverageUtilization",
    "currentAverageValue",
    "selector",
    "averageValue",
    "container",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Type",
    "Value",
    "PeriodSeconds",
    "Tolerance",
    "key",
    "operator",
    "values",
    "matchLabels",
];

fn written(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| ORDER.iter().position(|own| own == name).unwrap_or(ORDER.len()));
            let fields: Vec<String> =
                fields.into_iter().map(|(name, value)| format!("\"{name}\":{}", written(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(written).collect();
            format!("[{}]", items.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_metric() {
        let shown = json!({"apiVersion": "autoscaling/v1", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 5, "targetCPUUtilizationPercentage": 70}});
        let stored = to_v2(shown.clone());
        assert_eq!(stored["spec"]["metrics"], json!([cpu_metric(json!(70))]));
        assert_eq!(to_v1(stored), shown);
    }

    #[test]
    fn what_the_first_version_lacks_survives_in_annotations() {
        let stored = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"}, "spec": {"maxReplicas": 5,
            "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "3"}}},
                cpu_metric(json!(60)),
            ],
            "behavior": {"scaleUp": {"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}}},
            "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5, "averageValue": "1m"}}}],
                "conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let shown = to_v1(stored.clone());
        assert_eq!(shown["spec"], json!({"maxReplicas": 5, "targetCPUUtilizationPercentage": 60}));
        assert_eq!(
            shown["metadata"]["annotations"][METRICS],
            r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"3"}}]"#
        );
        assert_eq!(
            shown["metadata"]["annotations"][BEHAVIOR],
            r#"{"ScaleUp":{"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":2}]}}"#
        );
        assert_eq!(shown["status"]["currentCPUUtilizationPercentage"], 5);
        let mut back = to_v2(shown);
        back["apiVersion"] = json!("autoscaling/v2");
        assert_eq!(back, stored);
    }
}
