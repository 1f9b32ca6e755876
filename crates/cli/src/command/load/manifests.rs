//! The objects of a folder, in the order in which a cluster can take them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// An object, and where it stands.
#[derive(Debug)]
pub struct Manifest {
    /// The file, and the number of the document in it.
    pub origin: String,
    pub object: Value,
}

/// Reads a file, or the YAML and JSON files of a folder.
pub fn read(path: &Path, recursive: bool) -> Result<Vec<Manifest>> {
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, recursive, &mut files)?;
        ensure!(!files.is_empty(), "{} has no YAML or JSON file{}", path.display(), hint(path, recursive));
    } else {
        files.push(path.to_path_buf());
    }
    let mut manifests = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        documents(&file.display().to_string(), &text, &mut manifests)?;
    }
    // Stable: within a rank the files and documents keep their order.
    manifests.sort_by_key(|manifest| rank(&manifest.object));
    Ok(manifests)
}

fn hint(path: &Path, recursive: bool) -> &'static str {
    let folders = std::fs::read_dir(path).into_iter().flatten().flatten().any(|entry| entry.path().is_dir());
    if folders && !recursive { "; --recursive also reads the folders in it" } else { "" }
}

/// Adds the files of a folder by their names, then those of the folders in it.
fn collect(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let read =
        || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = read().with_context(|| format!("cannot read {}", folder.display()))?;
    paths.sort();
    let (folders, plain): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| path.is_dir());
    let known = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
    };
    files.extend(plain.into_iter().filter(known));
    for inner in folders.iter().filter(|_| recursive) {
        collect(inner, recursive, files)?;
    }
    Ok(())
}

/// Adds the objects of a file. The items of a List are objects of their own.
fn documents(file: &str, text: &str, manifests: &mut Vec<Manifest>) -> Result<()> {
    for (index, document) in split(text).into_iter().enumerate() {
        let origin = format!("{file}, document {}", index + 1);
        let object: Value = serde_saphyr::from_str(&document).with_context(|| origin.clone())?;
        if object.is_null() {
            continue;
        }
        let kind = object["kind"].as_str().unwrap_or_default();
        match object["items"].as_array().filter(|_| kind.ends_with("List")) {
            Some(items) => {
                for item in items {
                    add(&origin, item.clone(), manifests)?;
                }
            }
            None => add(&origin, object, manifests)?,
        }
    }
    Ok(())
}

/// The documents of a YAML stream: lines that begin with `---` separate them.
fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let separator = line == "---" || line.starts_with("--- ") || line.starts_with("---\t");
        if separator {
            documents.push(line[3..].to_owned());
        }
        if let Some(last) = documents.last_mut().filter(|_| !separator) {
            last.push_str(line);
        }
        if let Some(last) = documents.last_mut() {
            last.push('\n');
        }
    }
    documents.retain(|document| {
        document.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    documents
}

fn add(origin: &str, object: Value, manifests: &mut Vec<Manifest>) -> Result<()> {
    let text =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let (Some(version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        bail!("{origin}: no apiVersion and kind, so it is no object of Kubernetes");
    };
    let Some(name) = text("/metadata/name") else {
        bail!("{origin}: the {kind} has no metadata.name, so it cannot be applied");
    };
    let origin = format!("{origin}: {version} {kind} {name}");
    manifests.push(Manifest { origin, object });
    Ok(())
}

/// Namespaces and definitions come first, since the others need them. Admission configurations come last: they may
/// refuse what stands in the same folder as long as their webhooks do not answer.
fn rank(object: &Value) -> u8 {
    match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path, recursive: bool) -> Vec<String> {
        let read = read(folder, recursive).unwrap();
        read.iter().map(|manifest| manifest.object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn object(kind: &str, name: &str) -> String {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n")
    }

    #[test]
    fn what_others_need_comes_first_and_webhooks_come_last() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let webhook = object("ValidatingWebhookConfiguration", "webhook");
        write("a.yaml", &format!("# only a comment\n---\n{webhook}--- # next\n{}", object("ConfigMap", "a")));
        write(
            "b.yml",
            &format!("{}---\n{}", object("CustomResourceDefinition", "crd"), object("Namespace", "ns")),
        );
        write(
            "c.json",
            r#"{"kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}]}"#,
        );
        write("README.md", "no manifest");
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/d.yaml"), object("ConfigMap", "d")).unwrap();
        assert_eq!(names(folder.path(), false), ["ns", "crd", "a", "c", "webhook"]);
        assert_eq!(names(folder.path(), true), ["ns", "crd", "a", "c", "d", "webhook"]);
    }

    #[test]
    fn a_text_with_a_separator_in_it_is_one_document() {
        let text = format!("{}data:\n  x: |\n    ---\n    y\n", object("ConfigMap", "a"));
        assert_eq!(split(&text).len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_applied_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = |text: &str| {
            let file = folder.path().join("a.yaml");
            fs::write(&file, text).unwrap();
            format!("{:#}", read(&file, false).unwrap_err())
        };
        assert!(refusal("---\na: [1\n").contains("a.yaml, document 1"));
        assert!(refusal("a: 1\n").ends_with("no apiVersion and kind, so it is no object of Kubernetes"));
        let nameless = refusal("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n");
        assert!(nameless.ends_with("the Pod has no metadata.name, so it cannot be applied"), "{nameless}");
        fs::remove_file(folder.path().join("a.yaml")).unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        let empty = read(folder.path(), false).unwrap_err().to_string();
        assert!(empty.ends_with("--recursive also reads the folders in it"), "{empty}");
    }
}
