//! Replays the recorded corpus: what kube-apiserver accepts, and what it estimates and counts, to the unit.
//!
//! `peers/cel` records it: `go run . record 1 2000 > ../../testdata/cel/generated.json`.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its recording fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as File;

use serde_json::Value;
use setpoint_api::Path;
use setpoint_cel::Rules;
use setpoint_machinery::structural::Structural;

fn read(name: &str) -> Value {
    let file = File::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cel").join(name);
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// A schema with this rule at its root.
fn with_rule(schema: &Value, rule: &str) -> Structural {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = serde_json::json!([{"rule": rule, "message": "refused"}]);
    Structural::read(&schema)
}

/// The kind of a result: an empty text is true, and the message of the rule is false.
fn outcome(message: &str) -> &'static str {
    match message {
        "" => "true",
        "refused" | "Invalid value: refused" => "false",
        _ => "error",
    }
}

/// The ways in which our answer about a rule differs from the recorded one.
fn differences(schemas: &[Value], case: &Value) -> Vec<String> {
    let own = &schemas[usize::try_from(case["schema"].as_u64().unwrap()).unwrap()];
    let structural = with_rule(&own["schema"], case["rule"].as_str().unwrap());
    let (rules, causes, estimates) = Rules::examine(&structural, &Path::new("root"));
    match (causes.first(), case["error"].as_str()) {
        (Some(_), Some(_)) => return Vec::new(),
        (Some(cause), None) => return vec![format!("refused: {}", cause.message)],
        (None, Some(error)) => return vec![format!("accepted, but there: {error}")],
        (None, None) => {}
    }
    let mut found = Vec::new();
    if estimates[0].1 != case["estimate"].as_u64().unwrap_or(0) {
        found.push(format!("estimate {}, but there {}", estimates[0].1, case["estimate"]));
    }
    for (run, sample) in case["runs"].as_array().unwrap().iter().zip(own["objects"].as_array().unwrap()) {
        let (causes, cost) = rules.measure(&sample["object"], sample.get("old"));
        let ours = causes.first().map_or("", |cause| cause.message.as_str());
        let there = run["error"].as_str().unwrap_or_default();
        if outcome(ours) != outcome(there) {
            found.push(format!("ours is `{ours}`, but there `{there}`"));
        }
        // The recorder does not see the cost of a run that was cut off.
        if !there.contains("cost limit exceeded") && cost != run["cost"].as_u64().unwrap() {
            found.push(format!("cost {cost}, but there {} (`{ours}`)", run["cost"]));
        }
    }
    found
}

#[test]
fn costs_are_kubernetes_own() {
    let corpus = read("generated.json");
    let known = read("differences.json");
    let known: BTreeMap<&str, &str> = known
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["rule"].as_str().unwrap(), entry["reason"].as_str().unwrap()))
        .collect();
    let (schemas, cases) = (corpus["schemas"].as_array().unwrap(), corpus["cases"].as_array().unwrap());
    assert!(cases.len() >= 2000, "the corpus has {} rules", cases.len());
    let (mut lines, mut met) = (Vec::new(), BTreeSet::new());
    for case in cases {
        let (rule, found) = (case["rule"].as_str().unwrap(), differences(schemas, case));
        if found.is_empty() {
            continue;
        }
        met.insert(rule);
        if !known.contains_key(rule) {
            lines.push(format!("{rule}\n    {}", found.join("\n    ")));
        }
    }
    assert!(lines.is_empty(), "{} of {} rules differ:\n{}", lines.len(), cases.len(), lines.join("\n"));
    for (rule, reason) in known {
        assert!(met.contains(rule), "no longer differs, and need not be listed: {rule} ({reason})");
    }
}
