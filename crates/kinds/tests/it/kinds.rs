//! `testdata/kinds`: what kube-apiserver 1.37 made of an object, and what this crate makes of it.

use std::path::PathBuf;

use serde_json::{Value, json};
use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_api::{GroupKind, GroupVersionKind, Random, Status};
use setpoint_kinds::admission::{self, Cluster, Configuration, Operation, Plugin, Request, Right};
use setpoint_kinds::facts::Facts;
use setpoint_kinds::fields;
use setpoint_kinds::table::Printer;
use setpoint_kinds::validate::Policy;
use setpoint_kinds::{allocate, defaults, strategy, validate};

const UID: &str = "11111111-2222-4333-8444-555555555555";
const TIME: &str = "2026-01-01T00:00:00Z";

fn cases(topic: &str) -> Vec<Value> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/kinds/{topic}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap()
}

/// Long text is written as `@repeat:LENGTH`.
fn expand(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("@repeat:") {
            Some(length) => "x".repeat(length.parse().unwrap()).into(),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(expand).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), expand(value))).collect(),
        other => other.clone(),
    }
}

fn context(user: &Value) -> strategy::Context<'_> {
    strategy::Context { now: TIME.parse().unwrap(), user }
}

/// The object as the server reads it from a request.
fn typed(kind: &GroupVersionKind, input: &Value) -> Value {
    let schema = setpoint_schema::builtin().schema(&kind.group, &kind.version, &kind.kind).unwrap();
    setpoint_schema::read_value(input.clone(), &schema).unwrap().value
}

/// Does to an object what the server does around this crate's functions.
fn create(input: &Value) -> Result<Value, Status> {
    let kind = GroupVersionKind::of(input).unwrap();
    let facts = Facts::builtin(&kind.group, &kind.kind).unwrap();
    let mut object = typed(&kind, input);
    if facts.namespaced {
        object["metadata"]["namespace"] = json!("t");
    }
    object["metadata"]["uid"] = json!(UID);
    object["metadata"]["creationTimestamp"] = json!(TIME);
    defaults::apply(&kind, &mut object);
    admit(&kind, "", &mut object, None)?;
    if kind.kind == "Service" {
        allocate::create(&mut object, &ranges(), &taken, &Random::from_seed(1))?;
    }
    let user =
        json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    strategy::create(facts, &mut object, &context(&user));
    refuse(&kind, &object, validate::create(facts, &object, Policy::default()))?;
    strategy::stored(&kind, &mut object);
    Ok(object)
}

fn update(input: &Value, old: &Value, subresource: &str) -> Result<Value, Status> {
    let kind = GroupVersionKind::of(input).unwrap();
    let facts = Facts::builtin(&kind.group, &kind.kind).unwrap();
    let mut object = typed(&kind, input);
    defaults::apply(&kind, &mut object);
    let user = Value::Null;
    let causes = if !subresource.is_empty() {
        assert!(strategy::update_subresource(facts, subresource, &mut object, old, &context(&user)));
        validate::update_subresource(facts, subresource, &object, old, Policy::default())
    } else {
        if kind.kind == "Service" {
            allocate::update(&mut object, old, &ranges(), &taken, &Random::from_seed(1))?;
        }
        admit(&kind, "", &mut object, Some(old))?;
        strategy::update(facts, &mut object, old, &context(&user));
        validate::update(facts, &object, old, Policy::default())
    };
    refuse(&kind, &object, causes)?;
    strategy::stored(&kind, &mut object);
    Ok(object)
}

fn refuse(kind: &GroupVersionKind, object: &Value, causes: Vec<setpoint_api::Cause>) -> Result<(), Status> {
    if causes.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let facts = Facts::builtin(&kind.group, &kind.kind).unwrap();
    Err(Status::invalid(&GroupKind::new(facts.group, facts.kind), name, causes))
}

/// The API server's own service has the first address.
fn taken(claim: allocate::Claim) -> bool {
    claim == allocate::Claim::Ip(ranges().first_ip())
}

fn ranges() -> allocate::Ranges {
    allocate::Ranges::default()
}

/// A cluster with one priority class.
struct Nothing;

impl Cluster for Nothing {
    fn get(&self, group: &str, resource: &str, _: &str, name: &str) -> Option<Value> {
        (group == "scheduling.k8s.io" && resource == "priorityclasses" && name == "pc").then(
            || json!({"metadata": {"name": "pc"}, "value": 100, "preemptionPolicy": "PreemptLowerPriority"}),
        )
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
        Vec::new()
    }

    fn allows(&self, _: &Right<'_>) -> bool {
        true
    }

    fn resources_of(&self, _: &str, _: &str, _: &str) -> Vec<(String, bool)> {
        Vec::new()
    }
}

/// Lets the admission plugins change an object.
fn admit(
    kind: &GroupVersionKind,
    subresource: &str,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let resources = setpoint_schema::builtin().resources();
    let resource = resources.iter().find(|one| one.group == kind.group && one.kind == kind.kind).unwrap();
    let request = Request {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        group: &kind.group,
        version: &kind.version,
        resource: resource.plural,
        kind: &kind.kind,
        subresource,
        namespace: "t",
        name: object["metadata"]["name"].as_str().unwrap_or_default(),
        user: "admin",
        old,
        random: &Random::from_seed(1),
        signs_tokens: false,
        configuration: &Configuration::without([Plugin::ServiceAccount]),
    };
    let mut admitted = object.clone();
    admission::mutate(&request, &Nothing, &mut admitted)?;
    *object = admitted;
    Ok(())
}

/// Removes the fields that differ from one run to the next.
fn normalise(mut object: Value, input: &Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut()
        && metadata.contains_key("uid")
    {
        metadata.insert("resourceVersion".to_owned(), json!("1"));
    }
    if object["kind"] == "Service" {
        if input["spec"]["clusterIP"].is_null() && object["spec"].get("clusterIP").is_some() {
            object["spec"]["clusterIP"] = json!("IP");
            object["spec"]["clusterIPs"] = json!(["IP"]);
        }
        for (at, port) in object["spec"]["ports"].as_array_mut().into_iter().flatten().enumerate() {
            if port.get("nodePort").is_some() && input["spec"]["ports"][at]["nodePort"].is_null() {
                port["nodePort"] = json!("PORT");
            }
        }
        if object["spec"].get("healthCheckNodePort").is_some() {
            object["spec"]["healthCheckNodePort"] = json!("PORT");
        }
    }
    object
}

fn compare(case: &Value, result: Result<Value, Status>, failures: &mut Vec<String>) {
    let name = case["name"].as_str().unwrap();
    let (code, body) = match result {
        Ok(object) => (if case["verb"] == "create" { 201 } else { 200 }, object),
        Err(status) => (status.code, status.to_value()),
    };
    let ours = normalise(body, &case["object"]);
    let theirs = normalise(case["body"].clone(), &case["object"]);
    if ours != theirs || case["code"] != code {
        failures.push(format!("{name}\n  real {}\n  ours {}", difference(&theirs, &ours, ""), code));
    }
}

/// Lists the places where two values differ.
fn difference(real: &Value, ours: &Value, path: &str) -> String {
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter()
                .filter(|key| a.get(*key) != b.get(*key))
                .map(|key| {
                    let null = Value::Null;
                    let (one, other) = (a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null));
                    difference(one, other, &format!("{path}.{key}"))
                })
                .collect::<Vec<_>>()
                .join("\n    | ")
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => (0..a.len())
            .filter(|at| a[*at] != b[*at])
            .map(|at| difference(&a[at], &b[at], &format!("{path}[{at}]")))
            .collect::<Vec<_>>()
            .join("\n    | "),
        (real, ours) => format!("{path}: real {real} ours {ours}"),
    }
}

fn replay(topic: &str) {
    let mut failures = Vec::new();
    let cases = cases(topic);
    for case in &cases {
        match case["verb"].as_str().unwrap() {
            "create" => compare(case, create(&expand(&case["object"])), &mut failures),
            "update" => compare(case, update(&expand(&case["object"]), &case["old"], ""), &mut failures),
            "status" => compare(case, update(&case["object"], &case["old"], "status"), &mut failures),
            "sub" => {
                let subresource = case["subresource"].as_str().unwrap();
                compare(case, update(&case["object"], &case["old"], subresource), &mut failures);
            }
            "table" => table(case, &mut failures),
            other => panic!("unknown verb {other}"),
        }
    }
    let (bad, all) = (failures.len(), cases.len());
    assert!(failures.is_empty(), "{}\n{bad} of {all} cases of {topic} differ", failures.join("\n"));
}

fn table(case: &Value, failures: &mut Vec<String>) {
    let object = &case["object"];
    let kind = GroupVersionKind::of(object).unwrap();
    let printer = match case.get("printerColumns") {
        Some(columns) => Printer::custom(columns),
        None => Printer::builtin(&kind.group, &kind.kind),
    };
    let columns: Vec<Value> = printer
        .columns()
        .iter()
        .map(|one| json!({"name": one.name, "type": one.type_, "format": one.format, "priority": one.priority}))
        .collect();
    let now = case["now"].as_str().unwrap().parse().unwrap();
    let ours = json!({"columns": columns, "cells": printer.cells(object, now),
        "conditions": printer.conditions(object)});
    let real = json!({"columns": case["columns"], "cells": case["cells"], "conditions": case["conditions"]});
    if ours != real {
        let name = case["name"].as_str().unwrap();
        failures.push(format!("{name}\n  {}", difference(&real, &ours, "")));
    }
}

#[test]
fn created_objects_are_as_the_real_server_leaves_them() {
    replay("create");
}

#[test]
fn tables_are_as_the_real_server_prints_them() {
    replay("table");
}

#[test]
fn metadata_is_judged_as_the_real_server_judges_it() {
    replay("meta");
}

#[test]
fn selectors_are_refused_as_the_real_server_refuses_them() {
    for case in cases("selectors") {
        let kind = GroupVersionKind::of(&case).unwrap();
        if kind.kind == "ClusterTrustBundle" || kind.kind == "PodCertificateRequest" {
            continue;
        }
        let ours = match (case["fieldSelector"].as_str(), case["labelSelector"].as_str()) {
            (Some(text), _) => FieldSelector::parse(text).and_then(|selector| {
                fields::check(&kind, case["namespaced"].as_bool().unwrap(), &[], &selector)
            }),
            (None, Some(text)) => LabelSelector::parse(text).map(|_| ()),
            (None, None) => panic!("a selector is missing"),
        };
        let ours = ours.err().map_or(String::new(), |error| error.to_string());
        let real = case["message"].as_str().unwrap();
        assert!(real == ours || (!ours.is_empty() && real.ends_with(&format!(": {ours}"))), "{case}\n{ours}");
    }
}

macro_rules! topics {
    ($($topic:ident),*) => {
        $(
            #[test]
            fn $topic() {
                replay(stringify!($topic));
            }
        )*
    };
}

/// Each kind is judged as the real server judges it.
mod validation {
    use super::replay;

    topics!(
        config,
        pod,
        workload,
        batch,
        service,
        storage,
        rbac,
        networking,
        policy,
        crd,
        subresource,
        certificates,
        mutated
    );
}
