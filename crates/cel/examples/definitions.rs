//! Compares the rules of CustomResourceDefinitions with what Kubernetes' own CEL environment says of them. The
//! argument is a file that `peers/cel definitions` wrote. `cargo xtask e2e cel-corpus` makes it of public definitions.

// This is a command line.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use serde_json::Value;
use setpoint_api::Path;
use setpoint_cel::Rules;
use setpoint_machinery::structural::Structural;

fn main() -> ExitCode {
    let Some(text) = std::env::args().nth(1).and_then(|file| std::fs::read_to_string(file).ok()) else {
        eprintln!("usage: definitions FILE");
        return ExitCode::FAILURE;
    };
    let (mut definitions, mut rules, mut differences) = (0, 0, 0);
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let Ok(definition) = serde_json::from_str::<Value>(line) else {
            eprintln!("a line is no JSON");
            return ExitCode::FAILURE;
        };
        if !seen.insert(definition["object"]["spec"].to_string()) {
            continue;
        }
        definitions += 1;
        let known = definition["rules"].as_array().map_or(&[][..], Vec::as_slice);
        rules += known.len();
        for difference in compare(&definition["object"], known) {
            differences += 1;
            println!("{}: {difference}", definition["name"].as_str().unwrap_or_default());
        }
    }
    println!("{definitions} definitions with {rules} rules: {differences} differences");
    if definitions > 0 && differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The differences between our answers about the rules of a definition and the known ones.
fn compare(object: &Value, known: &[Value]) -> Vec<String> {
    let (mut estimates, mut errors) = (BTreeMap::new(), BTreeMap::new());
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    for (at, version) in versions.into_iter().flatten().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else { continue };
        let path = Path::new("spec").child("versions").index(at).child("schema").child("openAPIV3Schema");
        let (_, causes, found) = Rules::examine(&Structural::read(schema), &path);
        estimates.extend(found.into_iter().map(|(path, cost)| (path.to_string(), cost)));
        errors.extend(causes.into_iter().map(|cause| (cause.field, cause.message)));
    }
    let mut differences = Vec::new();
    for rule in known {
        let path = rule["path"].as_str().unwrap_or_default();
        for (name, field, error) in
            [("rule", "estimate", "error"), ("messageExpression", "message", "messageError")]
        {
            let place = format!("{path}.{name}");
            let ours = estimates.get(&place).copied().unwrap_or(0);
            let there = rule[field].as_u64().unwrap_or(0);
            match (errors.get(&place), rule[error].as_str()) {
                (Some(_), Some(_)) => {}
                (Some(error), None) => differences.push(format!("{place}: refused here: {error}")),
                (None, Some(error)) => differences.push(format!("{place}: refused there: {error}")),
                _ if ours != there => differences.push(format!("{place}: estimate {ours}, there {there}")),
                _ => {}
            }
        }
    }
    differences
}
