//! The rows of workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{age, human_duration, parse};
use super::cells::{created, labels, name, selector};
use crate::access::{at, int, items, text, truth};
use setpoint_api::kind::GroupVersion;
use setpoint_api::selector::LabelSelector;

fn number(object: &Value, path: &str) -> Value {
    int(object, path).unwrap_or_default().into()
}

fn containers(spec: &Value) -> [Value; 2] {
    let join = |field: &str| -> Value {
        let all: Vec<&str> = items(spec, "containers").iter().map(|one| text(one, field)).collect();
        all.join(",").into()
    };
    [join("name"), join("image")]
}

pub(super) fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "template.spec"));
    vec![name(object), names, images, labels(at(object, "template.metadata.labels"))]
}

pub(super) fn replicas(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    let plain = text(object, "kind") == "ReplicationController";
    let selected = at(object, "spec.selector");
    let selected = if plain { labels(selected) } else { selector(selected) };
    vec![
        name(object),
        number(object, "spec.replicas"),
        number(object, "status.replicas"),
        number(object, "status.readyReplicas"),
        created(object, now),
        names,
        images,
        selected,
    ]
}

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    let selected = LabelSelector::from_json(at(object, "spec.selector"));
    vec![
        name(object),
        ready(object),
        number(object, "status.updatedReplicas"),
        number(object, "status.availableReplicas"),
        created(object, now),
        names,
        images,
        selected.map_or("<invalid>".into(), |selector| selector.to_string().into()),
    ]
}

fn ready(object: &Value) -> Value {
    let ready = int(object, "status.readyReplicas").unwrap_or_default();
    format!("{ready}/{}", int(object, "spec.replicas").unwrap_or_default()).into()
}

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    vec![name(object), ready(object), created(object, now), names, images]
}

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    vec![
        name(object),
        number(object, "status.desiredNumberScheduled"),
        number(object, "status.currentNumberScheduled"),
        number(object, "status.numberReady"),
        number(object, "status.updatedNumberScheduled"),
        number(object, "status.numberAvailable"),
        labels(at(object, "spec.template.spec.nodeSelector")),
        created(object, now),
        names,
        images,
        selector(at(object, "spec.selector")),
    ]
}

pub(super) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owner = items(object, "metadata.ownerReferences").iter().find(|one| truth(one, "controller"));
    let owner = owner.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let group = GroupVersion::parse(text(owner, "apiVersion")).unwrap_or_default().group;
            let dot = if group.is_empty() { "" } else { "." };
            let kind = format!("{}{dot}{group}", text(owner, "kind")).to_lowercase();
            format!("{kind}/{}", text(owner, "name"))
        },
    );
    vec![name(object), owner.into(), number(object, "revision"), created(object, now)]
}

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.template.spec"));
    let succeeded = int(object, "status.succeeded").unwrap_or_default();
    let parallelism = int(object, "spec.parallelism").unwrap_or_default();
    let completions = match int(object, "spec.completions") {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let start = parse(at(object, "status.startTime"));
    let end = parse(at(object, "status.completionTime")).unwrap_or(now);
    let duration =
        start.map_or_else(String::new, |start| human_duration(end.as_nanosecond() - start.as_nanosecond()));
    vec![
        name(object),
        job_status(object).into(),
        completions.into(),
        duration.into(),
        created(object, now),
        names,
        images,
        selector(at(object, "spec.selector")),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let has = |kind: &str| {
        items(job, "status.conditions")
            .iter()
            .any(|one| text(one, "type") == kind && text(one, "status") == "True")
    };
    match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if !at(job, "metadata.deletionTimestamp").is_null() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(at(object, "spec.jobTemplate.spec.template.spec"));
    let last = match at(object, "status.lastScheduleTime") {
        Value::Null => "<none>".to_owned(),
        _ => age(object, "status.lastScheduleTime", now),
    };
    let zone = at(object, "spec.timeZone").as_str().unwrap_or("<none>");
    let suspend = match at(object, "spec.suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        name(object),
        text(object, "spec.schedule").into(),
        zone.into(),
        suspend.into(),
        items(object, "status.active").len().into(),
        last.into(),
        created(object, now),
        names,
        images,
        selector(at(object, "spec.jobTemplate.spec.selector")),
    ]
}

pub(super) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        number(object, "spec.replicas"),
        number(object, "status.replicas"),
        created(object, now),
    ]
}

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = at(object, "spec.scaleTargetRef");
    let least = int(object, "spec.minReplicas").map_or("<unset>".to_owned(), |number| number.to_string());
    vec![
        name(object),
        format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
        metrics(object).into(),
        least.into(),
        number(object, "spec.maxReplicas"),
        number(object, "status.currentReplicas"),
        created(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let specs = items(object, "spec.metrics");
    if text(object, "apiVersion") == "autoscaling/v1" {
        return cpu_v1(object);
    }
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let statuses = items(object, "status.currentMetrics");
    let shown: Vec<String> =
        specs.iter().enumerate().map(|(at, spec)| metric(spec, statuses.get(at))).collect();
    if shown.len() > 2 {
        return format!("{} + {} more...", shown[..2].join(", "), shown.len() - 2);
    }
    shown.join(", ")
}

/// The one metric of the old version.
fn cpu_v1(object: &Value) -> String {
    let Some(target) = int(object, "spec.targetCPUUtilizationPercentage") else { return "<none>".to_owned() };
    let current = int(object, "status.currentCPUUtilizationPercentage")
        .map_or("<unknown>".to_owned(), |percent| format!("{percent}%"));
    format!("cpu: {current}/{target}%")
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (field, prefix) = match text(spec, "type") {
        "External" => ("external", String::new()),
        "Pods" => ("pods", String::new()),
        "Object" => ("object", String::new()),
        "Resource" => ("resource", format!("{}: ", text(spec, "resource.name"))),
        "ContainerResource" => ("containerResource", format!("{}: ", text(spec, "containerResource.name"))),
        _ => return "<unknown type>".to_owned(),
    };
    let target = at(spec, &format!("{field}.target"));
    let current = status.map_or(&Value::Null, |status| at(status, &format!("{field}.current")));
    let show = |name: &str| at(current, name).as_str().unwrap_or("<unknown>").to_owned();
    let average = at(target, "averageValue");
    if !average.is_null() {
        let suffix = if matches!(field, "external" | "object") { " (avg)" } else { "" };
        return format!("{prefix}{}/{}{suffix}", show("averageValue"), average.as_str().unwrap_or_default());
    }
    if prefix.is_empty() {
        return format!("{}/{}", show("value"), text(target, "value"));
    }
    let percent = |value: &Value, none: &str| {
        int(value, "averageUtilization").map_or(none.to_owned(), |percent| format!("{percent}%"))
    };
    format!("{prefix}{}/{}", percent(current, "<unknown>"), percent(target, "<auto>"))
}
