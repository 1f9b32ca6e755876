//! An operator that `setpoint new` wrote, read back from its folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::ScaffoldError;
use crate::names::OperatorName;
use crate::words::CustomResource;

/// An operator in its folder.
#[derive(Clone, Debug)]
pub struct Project {
    /// The folder of its `Cargo.toml`.
    pub folder: PathBuf,
    /// Its name.
    pub name: OperatorName,
    /// Its kinds, by the names of their modules.
    pub resources: Vec<CustomResource>,
}

impl Project {
    /// Reads an operator.
    ///
    /// # Errors
    /// If the folder has no `Cargo.toml` with a package, or no kind.
    pub fn open(folder: &Path) -> Result<Project, ScaffoldError> {
        let not_one = |why: String| ScaffoldError::NotAnOperator { folder: folder.to_path_buf(), why };
        let text = fs::read_to_string(folder.join("Cargo.toml"))
            .map_err(|error| not_one(format!("Cargo.toml: {error}")))?;
        let manifest: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| not_one(format!("Cargo.toml: {}", error.message())))?;
        let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
        let name = name.ok_or_else(|| not_one("Cargo.toml names no package".into()))?;
        let sources = folder.join("src");
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&sources).map_err(ScaffoldError::file(&sources))? {
            files.push(entry.map_err(ScaffoldError::file(&sources))?.path().join("types.rs"));
        }
        files.sort();
        let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
        let resources: Vec<CustomResource> = texts.filter_map(|text| resource(&text)).collect();
        if resources.is_empty() {
            return Err(not_one("no src/KIND/types.rs derives a custom resource".into()));
        }
        Ok(Project { folder: folder.to_path_buf(), name: name.parse()?, resources })
    }

    /// Returns a kind of the operator.
    ///
    /// # Errors
    /// If it has none of this name.
    pub fn resource(&self, kind: &str) -> Result<&CustomResource, ScaffoldError> {
        self.resources.iter().find(|resource| resource.kind.as_str() == kind).ok_or_else(|| {
            let known: Vec<&str> = self.resources.iter().map(|resource| resource.kind.as_str()).collect();
            ScaffoldError::UnknownKind { kind: kind.to_owned(), known: known.join(", ") }
        })
    }
}

/// Reads the attributes of the first derived custom resource.
fn resource(text: &str) -> Option<CustomResource> {
    let attributes = text.split_once("#[kube(")?.1;
    let value = |name: &str| {
        let mut lines = attributes.lines().map(str::trim);
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix("= \""))?;
        value.split('"').next()
    };
    let kind: crate::KindName = value("kind")?.parse().ok()?;
    Some(CustomResource {
        group: value("group")?.parse().ok()?,
        version: value("version")?.parse().ok()?,
        plural: value("plural").map_or_else(|| Some(kind.plural()), |plural| plural.parse().ok())?,
        kind,
    })
}
