//! Which crate may use which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::run;

/// Crates that a crate must not pull in by any way outside its tests: an operator's author compiles all of it.
const MUST_NOT_PULL_IN: &[(&str, &[&str])] = &[(
    "setpoint",
    &[
        "setpoint-apiserver",
        "setpoint-store",
        "setpoint-machinery",
        "setpoint-kinds",
        "setpoint-cel",
        "setpoint-cluster",
        "setpoint-controllers",
        "setpoint-node",
        "setpoint-serving",
        "cel",
        "kube-cel",
        "antlr4rust",
    ],
)];

/// Which of our crates each of our crates may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", &[]),
    ("setpoint-schema", &["setpoint-api"]),
    ("setpoint-machinery", &["setpoint-api", "setpoint-schema"]),
    ("setpoint-kinds", &["setpoint-api", "setpoint-schema", "setpoint-machinery"]),
    ("setpoint-cel", &["setpoint-api", "setpoint-machinery"]),
    ("setpoint-store", &[]),
    ("setpoint-serving", &[]),
    (
        "setpoint-apiserver",
        &[
            "setpoint-api",
            "setpoint-schema",
            "setpoint-machinery",
            "setpoint-kinds",
            "setpoint-cel",
            "setpoint-store",
            "setpoint-serving",
        ],
    ),
    ("setpoint", &["setpoint-api", "setpoint-schema"]),
    ("setpoint-controllers", &["setpoint-api", "setpoint-kinds", "setpoint"]),
    ("setpoint-node", &["setpoint-api", "setpoint", "setpoint-serving"]),
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
    ("hostrecord-operator", &["setpoint"]),
    ("pump-mirror", &["setpoint"]),
    ("xtask", &["setpoint-peers"]),
];

/// Crates of pure functions know no runtime, no wire and no client.
const NO_TRANSPORT: &[&str] = &["tokio", "http", "hyper", "kube", "k8s-openapi"];

/// Packages that a crate must never depend on directly.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    ("setpoint-api", NO_TRANSPORT),
    ("setpoint-schema", NO_TRANSPORT),
    ("setpoint-machinery", NO_TRANSPORT),
    ("setpoint-kinds", NO_TRANSPORT),
    ("setpoint-cel", NO_TRANSPORT),
    ("setpoint-store", &["http", "hyper", "kube", "k8s-openapi", "serde_json"]),
    ("setpoint-apiserver", &["kube"]),
];

/// The graph as the lock file has it, for the host. Crates that are not here yet are fetched.
fn metadata() -> Result<Value> {
    let host = run::read(run::cargo().args(["-vV"]))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("cargo names no host")?;
    let text = run::read(run::cargo().args([
        "metadata",
        "--locked",
        "--format-version",
        "1",
        "--filter-platform",
        host,
    ]))?;
    Ok(serde_json::from_str(&text)?)
}

/// The packages of this workspace.
fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter(|package| package["source"].is_null())
}

/// Pairs of (package, what it depends on outside its tests).
fn direct_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    members(metadata)
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
    let metadata = metadata()?;
    let all = direct_dependencies(&metadata);
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
    pulled_in(&metadata, found);
    versions(&metadata, found);
    publishing(&metadata, found);
    dependency_rows(&all, found)
}

/// Every crate that is published says what a registry shows of it.
fn publishing(metadata: &Value, found: &mut Vec<String>) {
    // `publish = false` is an empty list of registries.
    for package in members(metadata).filter(|package| package["publish"].is_null()) {
        for field in ["description", "readme", "license", "repository", "keywords", "categories"] {
            let value = &package[field];
            if value.as_str().is_none_or(str::is_empty) && value.as_array().is_none_or(Vec::is_empty) {
                found.push(format!("{}: has no {field}", package["name"].as_str().unwrap_or_default()));
            }
        }
    }
}

/// No crate compiles, by whichever way, what it must not.
fn pulled_in(metadata: &Value, found: &mut Vec<String>) {
    let name_of: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
        let Some(id) = node["id"].as_str() else { continue };
        let normal = |used: &&Value| {
            used["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null())
        };
        let used = node["deps"].as_array().into_iter().flatten().filter(normal);
        uses.insert(id, used.filter_map(|used| used["pkg"].as_str()).collect());
    }
    for (package, banned) in MUST_NOT_PULL_IN {
        let root = name_of.iter().find(|(_, name)| *name == package).map(|(id, _)| *id);
        let mut left: Vec<(&str, String)> =
            root.into_iter().map(|root| (root, (*package).to_owned())).collect();
        let mut seen = BTreeSet::new();
        while let Some((id, way)) = left.pop() {
            for used in uses.get(id).into_iter().flatten().filter(|used| seen.insert(**used)) {
                let name = name_of.get(used).copied().unwrap_or_default();
                let way = format!("{way} → {name}");
                if banned.contains(&name) {
                    found.push(format!("{package} must not compile {name}: {way}"));
                }
                left.push((used, way));
            }
        }
    }
}

/// No dependency needs a newer Rust than the workspace promises.
fn versions(metadata: &Value, found: &mut Vec<String>) {
    let ours = members(metadata).filter_map(|package| package["rust_version"].as_str()).map(version).min();
    let Some(ours) = ours else {
        return found.push("Cargo.toml: the workspace names no rust-version".to_owned());
    };
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(theirs) = package["rust_version"].as_str() else { continue };
        if version(theirs) > ours {
            let text = |field: &str| package[field].as_str().unwrap_or_default();
            found.push(format!(
                "{} {} needs Rust {theirs}: newer than the workspace's rust-version",
                text("name"),
                text("version")
            ));
        }
    }
}

/// `1.89` and `1.89.0` are the same.
fn version(text: &str) -> [u32; 3] {
    let mut numbers = text.split(['.', '-', '+']).map(|number| number.parse().unwrap_or(0));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
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
#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(version("1.100") > version("1.89.0"));
        assert_eq!(version("1.89"), version("1.89.0"));
    }

    #[test]
    fn a_crate_without_a_readme_is_found() {
        let mut package = json!({
            "name": "a", "source": null, "publish": null, "description": "d", "license": "l", "repository": "r",
            "keywords": ["k"], "categories": ["c"],
        });
        let found = |package: &Value| {
            let mut found = Vec::new();
            publishing(&json!({"packages": [package]}), &mut found);
            found
        };
        assert_eq!(found(&package), ["a: has no readme"]);
        package["publish"] = json!([]);
        assert_eq!(found(&package), [""; 0]);
    }

    #[test]
    fn a_crate_that_comes_by_another_is_found() {
        let used = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [
                {"id": "1", "name": "setpoint", "rust_version": "1.89", "source": null},
                {"id": "2", "name": "between", "rust_version": "1.90.0", "version": "7.0.0", "source": "registry"},
                {"id": "3", "name": "kube-cel", "source": "registry"},
                {"id": "4", "name": "setpoint-store", "rust_version": "1.89", "source": null},
            ],
            "resolve": {"nodes": [
                {"id": "1", "deps": [used("2", Value::Null), used("4", json!("dev"))]},
                {"id": "2", "deps": [used("3", Value::Null)]},
            ]},
        });
        let mut found = Vec::new();
        pulled_in(&metadata, &mut found);
        versions(&metadata, &mut found);
        let expected = [
            "setpoint must not compile kube-cel: setpoint → between → kube-cel",
            "between 7.0.0 needs Rust 1.90.0: newer than the workspace's rust-version",
        ];
        assert_eq!(found, expected);
    }
}
