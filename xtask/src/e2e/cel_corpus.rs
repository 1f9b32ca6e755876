//! The rules of public definitions, judged by Kubernetes' own CEL environment and by ours: what is accepted, and what
//! it may cost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Missing, Setup};
use crate::run;

/// Modules whose folders hold definitions.
const MODULES: &[&str] = &[
    "github.com/cert-manager/cert-manager@v1.21.2",
    "github.com/cilium/cilium@v1.20.2",
    "github.com/cloudnative-pg/cloudnative-pg@v1.25.0",
    "github.com/crossplane/crossplane@v1.20.0",
    "github.com/envoyproxy/gateway@v1.9.1",
    "github.com/external-secrets/external-secrets@v1.3.2",
    "github.com/fluxcd/flagger@v1.36.1",
    "github.com/kedacore/keda/v2@v2.21.0",
    "github.com/kubernetes-sigs/kro@v0.9.4",
    "github.com/kyverno/api@v0.0.1-alpha.3.0.20260723090831-fb2785727f98",
    "github.com/kyverno/kyverno@v1.19.1",
    "github.com/projectcontour/contour@v1.33.8",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "github.com/traefik/traefik/v3@v3.7.13",
    "go.universe.tf/metallb@v0.15.2",
    "istio.io/api@v1.31.1",
    "sigs.k8s.io/cluster-api@v1.14.2",
    "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0",
    "sigs.k8s.io/gateway-api@v1.3.0",
    "sigs.k8s.io/jobset@v0.8.0",
    "sigs.k8s.io/karpenter@v1.6.0",
    "sigs.k8s.io/kueue@v0.9.0",
    "sigs.k8s.io/lws@v0.6.0",
    "sigs.k8s.io/network-policy-api@v0.1.1",
];

pub fn run(_setup: &Setup) -> Result<()> {
    if run::found("go").is_none() {
        return Err(Missing("go is not on the search path".into()).into());
    }
    let mut files = Vec::new();
    for module in MODULES {
        let folder = download(module)?;
        let before = files.len();
        collect(&folder, &mut files)?;
        ensure!(files.len() > before, "{module} has no definitions");
    }
    let folder = super::folder::new()?;
    let program = folder.path().join("cel");
    let mut build = Command::new("go");
    build.current_dir(run::root().join("peers/cel")).env("CGO_ENABLED", "0");
    run::check(build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg("."))?;
    let judged = run::read(Command::new(&program).arg("definitions").args(&files))?;
    let recorded = folder.path().join("definitions.jsonl");
    fs::write(&recorded, judged)?;
    let mut compare = run::cargo();
    compare.args(["run", "--quiet", "--package", "setpoint-cel", "--example", "definitions", "--"]);
    run::check(compare.arg(&recorded))
}

/// The folder of a module in Go's cache. The module is downloaded if it is not there.
fn download(module: &str) -> Result<PathBuf> {
    let mut command = Command::new("go");
    command.current_dir(run::root().join("peers/cel"));
    let said = run::read(command.args(["mod", "download", "-json", module]))
        .map_err(|error| Missing(format!("cannot download {module}: {error:#}")))?;
    let said: Value = serde_json::from_str(&said)?;
    said["Dir"].as_str().map(PathBuf::from).with_context(|| format!("{module} has no folder"))
}

/// Adds the YAML files below a folder that hold a definition.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if is_yaml && fs::read_to_string(&path).is_ok_and(|text| holds_definition(&text)) {
            files.push(path);
        }
    }
    Ok(())
}

fn holds_definition(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "kind: CustomResourceDefinition")
}
