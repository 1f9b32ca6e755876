//! Descriptions of the built-in types for `kubectl explain`, read from the source of k8s-openapi. No description is
//! copied into this repository (docs/decisions/0007-prose-from-source.md).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The folder of k8s-openapi's source for the Kubernetes release of this server.
const RELEASE: &str = "src/v1_37";

/// Writes the descriptions to the file that the program includes.
pub fn write() {
    let mut out = String::new();
    match source() {
        Some(folder) => collect(&folder.join(RELEASE), &mut out),
        None => {
            println!("cargo::warning=no source of k8s-openapi: kubectl explain will show no descriptions")
        }
    }
    let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("prose");
    fs::write(path, out).expect("cargo's folder can be written");
}

/// Returns cargo's copy of the crate. `cargo metadata` fails until all members' dependencies are fetched, which a
/// first build of this program does not do. The crate is then in the registry folder.
fn source() -> Option<PathBuf> {
    told_by_cargo().or_else(in_registry)
}

fn told_by_cargo() -> Option<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO")?);
    cargo
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform"])
        .arg(env::var_os("TARGET")?);
    let told = String::from_utf8(cargo.output().ok()?.stdout).ok()?;
    let (_, rest) = told.split_once("\"name\":\"k8s-openapi\",\"version\":")?;
    let (_, rest) = rest.split_once("\"manifest_path\":\"")?;
    let (manifest, _) = rest.split_once('"')?;
    Path::new(manifest).parent().map(Path::to_owned)
}

fn in_registry() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    let crates = registries.filter_map(|registry| fs::read_dir(registry.ok()?.path()).ok()).flatten();
    let found = crates.filter_map(|one| Some(one.ok()?.path())).filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with("k8s-openapi-")) && path.join(RELEASE).is_dir()
    });
    found.max()
}

fn collect(folder: &Path, out: &mut String) {
    let entries = fs::read_dir(folder).expect("the release is in the crate");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            collect(&path, out);
        } else if name.ends_with(".rs") {
            read(&fs::read_to_string(&path).expect("source is text"), out);
        }
    }
}

/// Reads the schema of one type. The source is generated with one key per line, so the indentation gives the depth.
fn read(source: &str, out: &mut String) {
    let Some((_, schema)) = source.split_once("impl crate::schemars::JsonSchema for ") else { return };
    let mut lines = schema.lines();
    let name =
        lines.find_map(|line| line.trim().strip_suffix(".into()")?.strip_prefix('"')?.strip_suffix('"'));
    let (Some(model), mut field) = (name, "") else { return };
    for line in lines {
        let text = line.trim_start();
        match (line.len() - text.len(), field) {
            (16, _) => field = text.strip_prefix('"').and_then(|rest| rest.split('"').next()).unwrap_or(""),
            (12, _) if text.starts_with("\"description\":") => tell(model, "", text, out),
            (20, field) if !field.is_empty() && text.contains("\"description\"") => {
                tell(model, field, text, out)
            }
            _ => {}
        }
    }
}

/// Writes one record: the type, the field and the text, each with a zero behind it.
fn tell(model: &str, field: &str, line: &str, out: &mut String) {
    let Some((_, rest)) = line.split_once("\"description\"") else { return };
    let (Some(first), Some(last)) = (rest.find('"'), rest.rfind('"')) else { return };
    for part in [model, field, &unescaped(&rest[first + 1..last])] {
        out.push_str(part);
        out.push('\0');
    }
}

fn unescaped(literal: &str) -> String {
    let (mut out, mut letters) = (String::with_capacity(literal.len()), literal.chars());
    while let Some(letter) = letters.next() {
        match if letter == '\\' { letters.next() } else { None } {
            None => out.push(letter),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let code: String = letters.by_ref().take_while(|letter| *letter != '}').collect();
                let code = u32::from_str_radix(code.trim_start_matches('{'), 16);
                out.extend(code.ok().and_then(char::from_u32));
            }
            Some(other) => out.push(other),
        }
    }
    out
}
