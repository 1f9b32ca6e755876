//! The files of a proof: manifests, samples, a life.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use setpoint_prove::Step;

/// The largest file that is read.
const FILE: u64 = 16 << 20;
/// The deepest folder below the given one.
const DEPTH: usize = 8;

/// The reason why files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is no YAML or JSON.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The cause, with the line.
        message: String,
    },
    /// No definition among the manifests.
    #[error(
        "{0} has no CustomResourceDefinition: name the folder or file that has it (`kustomize build config/default` \
         writes one)"
    )]
    NoDefinition(String),
    /// No objects among the samples.
    #[error("{0} has no objects")]
    NoSamples(String),
}

/// Reads the objects that the operator needs, definitions first. `-` is the standard input. Folders are read with
/// their folders, apart from `without`.
///
/// # Errors
/// If a file is unreadable, or no file has a definition.
pub fn manifests(paths: &[PathBuf], without: &[PathBuf]) -> Result<Vec<Value>, ObjectsError> {
    let without: Vec<PathBuf> = without.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut objects = Vec::new();
    for path in paths {
        for file in files(path, &without, DEPTH)? {
            objects.extend(documents(&file)?.into_iter().filter(is_object));
        }
    }
    let mut flat: Vec<Value> = Vec::new();
    for object in objects {
        let items = match object["items"].as_array() {
            Some(items) if object["kind"] == "List" => items.clone(),
            _ => vec![object],
        };
        for item in items {
            if !flat.contains(&item) {
                flat.push(item);
            }
        }
    }
    if !flat.iter().any(|object| object["kind"] == "CustomResourceDefinition") {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(ObjectsError::NoDefinition(names.join(", ")));
    }
    flat.sort_by_key(rank);
    Ok(flat)
}

/// The order in which kinds are applied: each needs the ones before.
fn rank(object: &Value) -> usize {
    const ORDER: [&str; 6] = [
        "CustomResourceDefinition",
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "Role",
        "ClusterRoleBinding",
    ];
    let kind = object["kind"].as_str().unwrap_or_default();
    ORDER.iter().position(|known| *known == kind).unwrap_or(ORDER.len())
}

/// Returns whether a document is an object of a cluster, not a file of a tool.
fn is_object(document: &Value) -> bool {
    let version = document["apiVersion"].as_str().unwrap_or_default();
    document["kind"].is_string() && !version.is_empty() && !version.starts_with("kustomize.config.k8s.io")
}

/// Returns namespace and name of the account under which the operator runs: that of the first Deployment, or else the
/// first ServiceAccount.
pub fn service_account(manifests: &[Value]) -> Option<(String, String)> {
    let of_kind = |kind: &'static str| manifests.iter().filter(move |object| object["kind"] == kind);
    let namespace = |object: &Value| object["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    let used = of_kind("Deployment").find_map(|deployment| {
        let account = deployment.pointer("/spec/template/spec/serviceAccountName")?.as_str()?;
        Some((namespace(deployment), account.to_owned()))
    });
    used.or_else(|| {
        let account = of_kind("ServiceAccount").next()?;
        Some((namespace(account), account["metadata"]["name"].as_str()?.to_owned()))
    })
}

/// Reads the objects of a file or folder in the order of the file names.
///
/// # Errors
/// If a file is unreadable, or there is no object.
pub fn samples(path: &Path) -> Result<Vec<Value>, ObjectsError> {
    let mut objects = Vec::new();
    for file in files(path, &[], DEPTH)? {
        objects.extend(documents(&file)?.into_iter().filter(is_object));
    }
    match objects.is_empty() {
        true => Err(ObjectsError::NoSamples(path.display().to_string())),
        false => Ok(objects),
    }
}

/// Makes the life of samples: all are applied, deleted in reverse, applied again and deleted again.
///
/// The second round finds what a deletion leaves behind.
pub fn life(samples: &[Value]) -> Vec<Step> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut steps = Vec::new();
    for _ in 0..2 {
        steps.extend(samples.iter().cloned().map(Step::Apply));
        steps.extend(samples.iter().rev().map(|object| Step::Delete { name: name(object) }));
    }
    steps
}

/// Returns the YAML and JSON files at a path, in order.
fn files(path: &Path, without: &[PathBuf], depth: usize) -> Result<Vec<PathBuf>, ObjectsError> {
    let failed = |source| ObjectsError::Read { path: path.to_owned(), source };
    if path == Path::new("-") || !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    if depth == 0 || path.canonicalize().is_ok_and(|path| without.contains(&path)) {
        return Ok(Vec::new());
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let extension = entry.extension().and_then(|extension| extension.to_str());
        // Patches of kustomize are no whole objects.
        let whole = entry.file_name().is_some_and(|name| name != "patches");
        if entry.is_dir() && whole {
            found.extend(files(&entry, without, depth - 1)?);
        } else if matches!(extension, Some("yaml" | "yml" | "json")) {
            found.push(entry);
        }
    }
    Ok(found)
}

/// Reads all documents of a file.
fn documents(path: &Path) -> Result<Vec<Value>, ObjectsError> {
    let failed = |source| ObjectsError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().take(FILE).read_to_string(&mut text).map_err(failed)?;
    } else {
        fs::File::open(path).map_err(failed)?.take(FILE).read_to_string(&mut text).map_err(failed)?;
    }
    let mut documents = Vec::new();
    for document in format!("\n{text}").split("\n---") {
        let lines =
            document.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
        if lines.clone().next().is_none() {
            continue;
        }
        let read = serde_saphyr::from_str(document)
            .map_err(|error| ObjectsError::Syntax { path: path.to_owned(), message: error.to_string() })?;
        documents.push(read);
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn manifests_are_ordered_and_files_of_tools_are_left_out() {
        let folder = folder(&[
            ("rbac/role.yaml", "---\nkind: ClusterRole\napiVersion: v1\nmetadata: {name: r}\n"),
            ("rbac/kustomization.yaml", "resources: [role.yaml]\n"),
            ("crd/patches/p.yaml", "kind: CustomResourceDefinition\napiVersion: v1\n"),
            (
                "crd/a.yaml",
                "# a comment\n---\nkind: CustomResourceDefinition\napiVersion: v1\nmetadata: {name: c}\n",
            ),
            ("samples/a.yaml", "kind: Store\napiVersion: v1\nmetadata: {name: s}\n"),
            ("notes.txt", "no yaml: ["),
        ]);
        let samples_path = folder.path().join("samples");
        let read = manifests(&[folder.path().to_owned()], std::slice::from_ref(&samples_path)).unwrap();
        let kinds: Vec<&str> = read.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["CustomResourceDefinition", "ClusterRole"]);
        assert_eq!(read[0]["metadata"]["name"], "c");

        let error = manifests(std::slice::from_ref(&samples_path), &[]).unwrap_err();
        assert!(error.to_string().contains("has no CustomResourceDefinition"), "{error}");
        let steps = life(&samples(&samples_path).unwrap());
        assert_eq!(steps.len(), 4);
        assert_eq!(steps[1], Step::Delete { name: "s".into() });
        let error = samples(&folder.path().join("none")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read"), "{error}");
    }

    #[test]
    fn the_account_is_that_of_the_deployment() {
        let account =
            serde_json::json!({"kind": "ServiceAccount", "metadata": {"name": "other", "namespace": "n"}});
        let deployment = serde_json::json!({
            "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"template": {"spec": {"serviceAccountName": "manager"}}},
        });
        assert_eq!(service_account(std::slice::from_ref(&account)), Some(("n".into(), "other".into())));
        assert_eq!(service_account(&[account, deployment]), Some(("n".into(), "manager".into())));
        assert_eq!(service_account(&[]), None);
    }
}
