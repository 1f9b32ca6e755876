//! `setpoint new NAME`: the crate of an operator.

use std::path::{Path, PathBuf};

use crate::changes::Changes;
use crate::error::ScaffoldError;
use crate::kind;
use crate::names::OperatorName;
use crate::words::{CustomResource, Words};

/// The place from which the new crate takes Setpoint's crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The registry.
    Registry,
    /// A clone of Setpoint's repository.
    Folder(PathBuf),
}

/// Files of every operator. The files of a kind are in [`kind`].
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../parts/Cargo.toml.template")),
    ("src/lib.rs", include_str!("../template/src/lib.rs")),
    ("src/main.rs", include_str!("../template/src/main.rs")),
    ("tests/it/main.rs", include_str!("../template/tests/it/main.rs")),
    ("Dockerfile", include_str!("../parts/Dockerfile")),
    (".dockerignore", include_str!("../parts/dockerignore")),
    (".gitignore", include_str!("../parts/gitignore")),
    (".github/workflows/ci.yml", include_str!("../parts/ci.yml")),
    ("README.md", include_str!("../parts/README.md")),
];

/// Plans the crate of an operator with one kind.
///
/// # Errors
/// If one of its files exists, or the source is no clone of Setpoint.
pub fn operator(
    folder: &Path,
    name: &OperatorName,
    resource: &CustomResource,
    source: &Source,
) -> Result<Changes, ScaffoldError> {
    let words = Words::of(name, resource);
    let mut changes = Changes::in_folder(folder);
    for (file, text) in FILES {
        let text = words.fill(text);
        let text = if *file == "Cargo.toml" { source.fill(&text)? } else { text };
        changes.create(*file, text)?;
    }
    kind::files(&mut changes, &words, resource)?;
    Ok(changes)
}

impl Source {
    /// Names Setpoint's crates in a manifest.
    fn fill(&self, manifest: &str) -> Result<String, ScaffoldError> {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let folder = match self {
            Source::Registry => None,
            Source::Folder(folder) => {
                let folder = std::path::absolute(folder).map_err(ScaffoldError::file(folder))?;
                if !folder.join("crates/runtime/Cargo.toml").is_file() {
                    return Err(ScaffoldError::NoSource(folder));
                }
                Some(folder)
            }
        };
        let mut manifest = manifest.to_owned();
        for name in ["runtime", "cluster", "prove"] {
            let place = match &folder {
                None => format!("version = \"{major}.{minor}\""),
                // Debug is TOML's basic string but for signs that no folder of sources has.
                Some(folder) => {
                    format!("path = {:?}", folder.join("crates").join(name).display().to_string())
                }
            };
            manifest = manifest.replace(&format!("SOURCE/{name}"), &place);
        }
        Ok(manifest)
    }
}
