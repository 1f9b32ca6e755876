//! The packages of one binary: a stripped copy, its checksum, its list of packages, the Python wheel, the npm package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::run;

/// The programs that make them.
pub const TOOLS: &[&str] = &["strip", "sha256sum", "python3", "npm"];

/// The files that were made.
pub struct Packages {
    pub binary: PathBuf,
    pub wheel: PathBuf,
    pub npm: PathBuf,
}

/// Makes everything of a binary.
pub fn make(program: &Path, folder: &Path) -> Result<Packages> {
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let binary = folder.join("setpoint");
    run::check(Command::new("strip").arg("-o").arg(&binary).arg(program))?;
    let metadata = metadata()?;
    let version = version(&metadata)?;
    fs::write(folder.join("setpoint.cdx.json"), sbom(&metadata, &version).to_string())?;
    let wheel = wheel(&binary, &version, &folder)?;
    let npm = npm(&binary, &version, &folder)?;
    let sums = Command::new("sha256sum").current_dir(&folder).args(names(&folder)?).output()?;
    fs::write(folder.join("SHA256SUMS"), sums.stdout)?;
    Ok(Packages { binary, wheel, npm })
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// The graph of the binary's packages.
fn metadata() -> Result<Value> {
    let words = ["metadata", "--locked", "--format-version", "1", "--manifest-path", "crates/cli/Cargo.toml"];
    Ok(serde_json::from_str(&run::read(run::cargo().args(words))?)?)
}

fn version(metadata: &Value) -> Result<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut ours = packages.filter(|package| package["name"] == "setpoint-cli");
    let version = ours.next().and_then(|package| package["version"].as_str());
    Ok(version.context("cargo knows no setpoint-cli")?.to_owned())
}

/// The packages that the binary is built from, as CycloneDX lists them: those that are reached by normal dependencies.
fn sbom(metadata: &Value, version: &str) -> Value {
    let nodes = metadata["resolve"]["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let root = packages.iter().find(|package| package["name"] == "setpoint-cli");
    let mut reached: Vec<&str> = root.and_then(|package| package["id"].as_str()).into_iter().collect();
    let mut next = 0;
    while let Some(id) = reached.get(next).copied() {
        next += 1;
        let node = nodes.iter().find(|node| node["id"] == id);
        for used in node.and_then(|node| node["deps"].as_array()).into_iter().flatten() {
            let mut kinds = used["dep_kinds"].as_array().into_iter().flatten();
            let id = used["pkg"].as_str().unwrap_or_default();
            if kinds.any(|kind| kind["kind"].is_null()) && !reached.contains(&id) {
                reached.push(id);
            }
        }
    }
    let listed = packages.iter().filter(|package| reached.iter().any(|id| package["id"] == *id));
    let components: Vec<Value> = listed.map(component).collect();
    json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {"type": "application", "name": "setpoint", "version": version}},
        "components": components,
    })
}

fn component(package: &Value) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let mut component = json!({
        "type": "library", "name": text("name"), "version": text("version"),
        "purl": format!("pkg:cargo/{}@{}", text("name"), text("version")),
    });
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{"expression": license}]);
    }
    component
}

fn wheel(binary: &Path, version: &str, folder: &Path) -> Result<PathBuf> {
    let script = run::root().join("packages/python/build.py");
    let said = run::read(Command::new("python3").arg(script).arg(binary).arg(version).arg(folder))?;
    Ok(PathBuf::from(said.trim()))
}

fn npm(binary: &Path, version: &str, folder: &Path) -> Result<PathBuf> {
    let staged = tempfile::tempdir()?;
    let source = run::root().join("packages/npm");
    for name in ["index.js", "index.d.ts", "README.md"] {
        fs::copy(source.join(name), staged.path().join(name))?;
    }
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let manifest = fs::read_to_string(source.join("package.json"))?;
    let manifest =
        manifest.replace("@VERSION@", version).replace("@OS@", std::env::consts::OS).replace("@CPU@", cpu);
    fs::write(staged.path().join("package.json"), manifest)?;
    fs::create_dir(staged.path().join("bin"))?;
    let program = staged.path().join("bin/setpoint");
    fs::copy(binary, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]).arg(folder).current_dir(staged.path());
    Ok(folder.join(run::read(&mut pack)?.trim()))
}
