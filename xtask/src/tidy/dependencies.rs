//! Which crate may use which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::Result;
use serde_json::Value;

use crate::run;

/// Which of our crates each of our crates may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", &[]),
    ("setpoint-store", &[]),
    ("setpoint-apiserver", &["setpoint-api", "setpoint-store"]),
    ("setpoint", &["setpoint-api"]),
    ("setpoint-controllers", &["setpoint-api", "setpoint"]),
    ("setpoint-node", &["setpoint-api", "setpoint"]),
    (
        "setpoint-cluster",
        &[
            "setpoint-api",
            "setpoint-store",
            "setpoint-apiserver",
            "setpoint",
            "setpoint-controllers",
            "setpoint-node",
        ],
    ),
    ("foo-controller", &["setpoint"]),
    ("myresource-operator", &["setpoint"]),
    ("markdownview-operator", &["setpoint"]),
    ("xtask", &["setpoint-peers"]),
];

/// What a crate must never pull in directly.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", &["tokio", "http", "hyper", "kube", "k8s-openapi"]),
    ("setpoint-store", &["http", "hyper", "kube", "k8s-openapi", "serde_json"]),
    ("setpoint-apiserver", &["kube"]),
];

fn metadata() -> Result<Value> {
    let text = run::read(run::cargo().args(["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
    Ok(serde_json::from_str(&text)?)
}

/// Pairs of (package, what it depends on outside its tests).
fn direct_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .map(|package| {
            let uses = package["dependencies"].as_array().into_iter().flatten();
            let uses = uses.filter(|dependency| dependency["kind"].is_null());
            let names = uses.filter_map(|dependency| dependency["name"].as_str()).map(str::to_owned);
            (package["name"].as_str().unwrap_or_default().to_owned(), names.collect())
        })
        .collect()
}

/// Checks what each crate names as a dependency.
pub fn check(found: &mut Vec<String>) -> Result<()> {
    let all = direct_dependencies(&metadata()?);
    for (package, allowed) in MAY_USE {
        let Some(uses) = all.get(*package) else {
            found.push(format!("{package}: listed in tidy, absent from the workspace"));
            continue;
        };
        for ours in uses.iter().filter(|name| all.contains_key(*name)) {
            if !allowed.contains(&ours.as_str()) {
                found.push(format!("{package} must not depend on {ours}"));
            }
        }
    }
    for (package, banned) in MUST_NOT_USE {
        for name in all.get(*package).into_iter().flatten().filter(|name| banned.contains(&name.as_str())) {
            found.push(format!("{package} must not depend on {name}"));
        }
    }
    dependency_rows(&all, found)
}

/// Every direct dependency has its row in `docs/dependencies.md`.
fn dependency_rows(all: &BTreeMap<String, BTreeSet<String>>, found: &mut Vec<String>) -> Result<()> {
    let table = fs::read_to_string(run::root().join("docs/dependencies.md"))?;
    let external: BTreeSet<&String> =
        all.values().flatten().filter(|name| !all.contains_key(*name)).collect();
    for name in external {
        if !table.lines().any(|line| line.starts_with(&format!("| {name} |"))) {
            found.push(format!("docs/dependencies.md: no row for {name}"));
        }
    }
    Ok(())
}
