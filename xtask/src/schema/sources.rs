//! The inputs: the published OpenAPI and discovery documents, and the output of Go's reflection.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::run;

/// The release whose description is read.
const KUBERNETES: &str = "k8s.io/kubernetes@v1.37.0";

/// Everything the generator knows.
pub struct Sources {
    /// OpenAPI components of all group-versions by name.
    pub components: BTreeMap<String, Value>,
    /// The discovery folder.
    pub discovery: PathBuf,
    /// The output of the Go program.
    pub go: Value,
}

/// Loads all sources; the modules come from Go's module cache or are downloaded into it.
pub fn load() -> Result<Sources> {
    let downloaded = run::read(Command::new("go").args(["mod", "download", "-json", KUBERNETES]))?;
    let downloaded: Value = serde_json::from_str(&downloaded)?;
    let module = PathBuf::from(downloaded["Dir"].as_str().context("go mod download names no folder")?);
    let go = go(&["types".as_ref()])?;
    Ok(Sources {
        components: components(&module.join("api/openapi-spec/v3"))?,
        discovery: module.join("api/discovery"),
        go: serde_json::from_str(&go)?,
    })
}

/// Runs the Go program beside this one.
pub fn go(words: &[&OsStr]) -> Result<String> {
    let program = run::root().join("tools/schema-go");
    run::read(Command::new("go").current_dir(program).args(["run", "."]).args(words))
}

fn components(folder: &Path) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let mut document = read_json(&entry?.path())?;
        let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut) else {
            continue;
        };
        all.append(&mut std::mem::take(schemas).into_iter().collect());
    }
    Ok(all)
}

/// A JSON file.
pub fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// A text that must be there.
pub fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("no text `{name}` in {value}"))
}

/// A list that may be absent.
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}
